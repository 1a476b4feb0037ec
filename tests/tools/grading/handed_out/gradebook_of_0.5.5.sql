BEGIN TRANSACTION;
CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL);
INSERT INTO "alembic_version" VALUES('724cde206c17');
CREATE TABLE assignment (
	id VARCHAR(32) NOT NULL,
	name VARCHAR(128) NOT NULL,
	duedate DATETIME,
	PRIMARY KEY (id),
	UNIQUE (name)
);
INSERT INTO "assignment" VALUES('2ce88aba484f44b8a03c4252a77756c1','98_things','2026-01-31 18:00:00.000000');
CREATE TABLE comment (
	id VARCHAR(32) NOT NULL,
	notebook_id VARCHAR(32),
	cell_id VARCHAR(32),
	auto_comment TEXT,
	manual_comment TEXT,
	PRIMARY KEY (id),
	UNIQUE (cell_id, notebook_id),
	FOREIGN KEY(notebook_id) REFERENCES submitted_notebook (id),
	FOREIGN KEY(cell_id) REFERENCES solution_cell (id)
);
CREATE TABLE grade (
	id VARCHAR(32) NOT NULL,
	notebook_id VARCHAR(32),
	cell_id VARCHAR(32),
	auto_score FLOAT,
	manual_score FLOAT,
	extra_credit FLOAT,
	needs_manual_grade BOOLEAN NOT NULL,
	PRIMARY KEY (id),
	UNIQUE (cell_id, notebook_id),
	FOREIGN KEY(notebook_id) REFERENCES submitted_notebook (id),
	FOREIGN KEY(cell_id) REFERENCES grade_cell (id),
	CHECK (needs_manual_grade IN (0, 1))
);
CREATE TABLE grade_cell (
	id VARCHAR(32) NOT NULL,
	name VARCHAR(128) NOT NULL,
	max_score FLOAT NOT NULL,
	cell_type VARCHAR(8) NOT NULL,
	notebook_id VARCHAR(32),
	PRIMARY KEY (id),
	UNIQUE (name, notebook_id),
	CONSTRAINT grade_cell_type CHECK (cell_type IN ('code', 'markdown')),
	FOREIGN KEY(notebook_id) REFERENCES notebook (id)
);
CREATE TABLE notebook (
	id VARCHAR(32) NOT NULL,
	name VARCHAR(128) NOT NULL,
	assignment_id VARCHAR(32),
	kernelspec VARCHAR(1024),
	PRIMARY KEY (id),
	UNIQUE (name, assignment_id),
	FOREIGN KEY(assignment_id) REFERENCES assignment (id)
);
CREATE TABLE solution_cell (
	id VARCHAR(32) NOT NULL,
	name VARCHAR(128) NOT NULL,
	notebook_id VARCHAR(32),
	PRIMARY KEY (id),
	UNIQUE (name, notebook_id),
	FOREIGN KEY(notebook_id) REFERENCES notebook (id)
);
CREATE TABLE source_cell (
	id VARCHAR(32) NOT NULL,
	name VARCHAR(128) NOT NULL,
	cell_type VARCHAR(8) NOT NULL,
	locked BOOLEAN NOT NULL,
	source TEXT,
	checksum VARCHAR(128),
	notebook_id VARCHAR(32),
	PRIMARY KEY (id),
	UNIQUE (name, notebook_id),
	CONSTRAINT source_cell_type CHECK (cell_type IN ('code', 'markdown')),
	CHECK (locked IN (0, 1)),
	FOREIGN KEY(notebook_id) REFERENCES notebook (id)
);
CREATE TABLE student (
	id VARCHAR(128) NOT NULL,
	first_name VARCHAR(128),
	last_name VARCHAR(128),
	email VARCHAR(128),
	PRIMARY KEY (id)
);
INSERT INTO "student" VALUES('ada',NULL,NULL,NULL);
CREATE TABLE submitted_assignment (
	id VARCHAR(32) NOT NULL,
	assignment_id VARCHAR(32),
	student_id VARCHAR(128),
	timestamp DATETIME,
	extension DATETIME,
	PRIMARY KEY (id),
	UNIQUE (assignment_id, student_id),
	FOREIGN KEY(assignment_id) REFERENCES assignment (id),
	FOREIGN KEY(student_id) REFERENCES student (id)
);
CREATE TABLE submitted_notebook (
	id VARCHAR(32) NOT NULL,
	assignment_id VARCHAR(32),
	notebook_id VARCHAR(32),
	flagged BOOLEAN,
	late_submission_penalty FLOAT,
	PRIMARY KEY (id),
	UNIQUE (notebook_id, assignment_id),
	FOREIGN KEY(assignment_id) REFERENCES submitted_assignment (id),
	FOREIGN KEY(notebook_id) REFERENCES notebook (id),
	CHECK (flagged IN (0, 1))
);
COMMIT;
