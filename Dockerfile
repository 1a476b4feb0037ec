# One image for all containers: a dev container (.devcontainer/), a Hugging Face Space, a grader. docs/containers.md says
# how each is used.
FROM python:3.12-slim-bookworm

# bubblewrap and libseccomp2 are the sandbox of torchkata grade, git is for torchkata collect and dev containers
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap git libseccomp2 make \
    && rm -rf /var/lib/apt/lists/*

# Hugging Face runs containers as the user with this number
RUN useradd --create-home --uid 1000 learner
USER learner
RUN mkdir /home/learner/course
WORKDIR /home/learner/course
ENV PATH="/home/learner/venv/bin:$PATH"

# PyTorch's own index has the CPU build, a tenth of the size of the one with CUDA
COPY --chown=learner requirements.lock ./
RUN python -m venv /home/learner/venv \
    && pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu -r requirements.lock

COPY --chown=learner . .
RUN pip install --no-deps --no-build-isolation -e . && torchkata workbook

# JupyterLab asks for the token in JUPYTER_TOKEN, or else for one that it prints when it starts
EXPOSE 7860
CMD ["torchkata", "lab", "--no-browser", "--ip=0.0.0.0", "--port=7860"]
