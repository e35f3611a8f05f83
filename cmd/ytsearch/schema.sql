-- How many bytes of a file of lines are brought in.
CREATE TABLE files (name TEXT PRIMARY KEY, read INTEGER NOT NULL);

-- Times are as upstream and ytfetch wrote them. What upstream did not say is empty, or 0.
CREATE TABLE videos (
	number       INTEGER PRIMARY KEY,   -- stable: the index of words refers to it
	id           TEXT NOT NULL UNIQUE,  -- upstream's
	seen         TEXT NOT NULL,         -- fetched last
	published    TEXT NOT NULL,
	views        INTEGER NOT NULL,
	title        TEXT NOT NULL,
	channel      TEXT NOT NULL,
	tags         TEXT NOT NULL,         -- one a line
	description  TEXT NOT NULL
);

-- Where a video was seen, and the newest file that says so: if that is removed, the row goes with it.
CREATE TABLE places (
	video   INTEGER NOT NULL,
	region  TEXT NOT NULL,
	file    TEXT NOT NULL,
	PRIMARY KEY (video, region)
) WITHOUT ROWID;
CREATE INDEX places_file ON places (file);

CREATE VIRTUAL TABLE texts USING fts5 (title, channel, tags, description, content = 'videos', content_rowid = 'number',
	tokenize = 'unicode61 remove_diacritics 2', prefix = '2 3');
INSERT INTO texts (texts, rank) VALUES ('rank', 'bm25(10.0, 5.0, 5.0, 1.0)');
-- The words of a removed video leave the index with it, not at a later merge.
INSERT INTO texts (texts, rank) VALUES ('secure-delete', 1);

CREATE TRIGGER videos_inserted AFTER INSERT ON videos BEGIN
	INSERT INTO texts (rowid, title, channel, tags, description)
		VALUES (new.number, new.title, new.channel, new.tags, new.description);
END;
CREATE TRIGGER videos_deleted AFTER DELETE ON videos BEGIN
	INSERT INTO texts (texts, rowid, title, channel, tags, description)
		VALUES ('delete', old.number, old.title, old.channel, old.tags, old.description);
END;
-- A video is fetched again and again; its texts are indexed again when they changed.
CREATE TRIGGER videos_updated AFTER UPDATE ON videos
WHEN (old.title, old.channel, old.tags, old.description) IS NOT (new.title, new.channel, new.tags, new.description) BEGIN
	INSERT INTO texts (texts, rowid, title, channel, tags, description)
		VALUES ('delete', old.number, old.title, old.channel, old.tags, old.description);
	INSERT INTO texts (rowid, title, channel, tags, description)
		VALUES (new.number, new.title, new.channel, new.tags, new.description);
END;
