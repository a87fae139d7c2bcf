BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0002');
CREATE TABLE collective_admitted (
	task TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	token BLOB NOT NULL, 
	report_id BLOB NOT NULL, 
	PRIMARY KEY (task, number, token)
)
 WITHOUT ROWID

;
CREATE TABLE collective_burnt (
	report_id BLOB NOT NULL, 
	PRIMARY KEY (report_id)
)
 WITHOUT ROWID

;
CREATE TABLE collective_keys (
	task TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	"key" BLOB NOT NULL, 
	PRIMARY KEY (task, number)
);
CREATE TABLE collective_reports (
	task TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	report_id BLOB NOT NULL, 
	leader BLOB NOT NULL, 
	helper BLOB NOT NULL, 
	PRIMARY KEY (task, number, report_id)
);
CREATE TABLE collective_rounds (
	task TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	record BLOB NOT NULL, 
	PRIMARY KEY (task, number)
);
CREATE TABLE feedback (
	user_key INTEGER NOT NULL, 
	item_key INTEGER NOT NULL, 
	feedback_type TEXT NOT NULL, 
	value DOUBLE NOT NULL, 
	timestamp BIGINT, 
	comment TEXT NOT NULL, 
	PRIMARY KEY (user_key, item_key, feedback_type), 
	FOREIGN KEY(user_key) REFERENCES users (user_key) ON DELETE CASCADE, 
	FOREIGN KEY(item_key) REFERENCES items (item_key) ON DELETE CASCADE
)
 WITHOUT ROWID

;
INSERT INTO "feedback" VALUES(1,1,'watch',2.0,NULL,'');
INSERT INTO "feedback" VALUES(1,2,'watch',1.0,NULL,'');
INSERT INTO "feedback" VALUES(1,3,'rating',4.0,NULL,'');
INSERT INTO "feedback" VALUES(2,3,'like',0.0,1620259200,'yes');
CREATE TABLE items (
	item_key INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	item_id TEXT NOT NULL, 
	is_hidden BOOLEAN NOT NULL, 
	categories TEXT NOT NULL, 
	labels TEXT NOT NULL, 
	timestamp BIGINT, 
	comment TEXT NOT NULL, 
	UNIQUE (item_id)
);
INSERT INTO "items" VALUES(1,'alien',0,'["Drama"]','{"year": 1990}',NULL,'alien');
INSERT INTO "items" VALUES(2,'heat',0,'["Drama"]','{"year": 1990}',NULL,'heat');
INSERT INTO "items" VALUES(3,'up',0,'["Drama"]','{"year": 1990}',NULL,'up');
CREATE TABLE releases (
	user_key INTEGER NOT NULL, 
	feedback_type TEXT NOT NULL, 
	rows INTEGER NOT NULL, 
	guarantee TEXT NOT NULL, 
	PRIMARY KEY (user_key, feedback_type), 
	FOREIGN KEY(user_key) REFERENCES users (user_key) ON DELETE CASCADE
);
INSERT INTO "releases" VALUES(1,'watch',2,'{"epsilon": 1.0, "delta": 0.0, "unit": "item", "relation": "add or remove one", "status": "proved", "assumes": [], "mu": null, "reproducible": false}');
CREATE TABLE state (
	id INTEGER NOT NULL, 
	revision BIGINT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "state" VALUES(1,4);
CREATE TABLE users (
	user_key INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	user_id TEXT NOT NULL, 
	secret_digest BLOB, 
	labels TEXT NOT NULL, 
	comment TEXT NOT NULL, 
	seen_day INTEGER NOT NULL, 
	revision BIGINT NOT NULL, 
	UNIQUE (user_id), 
	UNIQUE (secret_digest)
);
INSERT INTO "users" VALUES(1,'ann',NULL,'null','',20773,4);
INSERT INTO "users" VALUES(2,'bob',NULL,'null','',20773,3);
CREATE INDEX feedback_of_item ON feedback (item_key);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('items',3);
INSERT INTO "sqlite_sequence" VALUES('users',2);
COMMIT;
