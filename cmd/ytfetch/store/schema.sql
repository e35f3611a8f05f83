-- Times are Unix seconds. What upstream did not say is NULL, or empty where it is text.

CREATE TABLE videos (
	number       INTEGER PRIMARY KEY,   -- stable: the index of words refers to it
	id           TEXT NOT NULL UNIQUE,  -- upstream's
	first_seen   INTEGER NOT NULL,
	last_seen    INTEGER NOT NULL,      -- when upstream last sent this row
	published    INTEGER,
	duration_s   INTEGER,
	views        INTEGER,
	likes        INTEGER,
	comments     INTEGER,
	category     TEXT NOT NULL,
	channel_id   TEXT NOT NULL,
	channel      TEXT NOT NULL,
	title        TEXT NOT NULL,
	tags         TEXT NOT NULL,         -- one a line
	description  TEXT NOT NULL
);

CREATE INDEX videos_last_seen ON videos (last_seen);

-- For a search by time, which looks at many videos and so not at their long rows.
CREATE INDEX videos_seen ON videos (number, last_seen);

-- Where a video was in the chart of a region that was begun at a slot, or among what a query
-- found there.
CREATE TABLE appearances (
	region  TEXT NOT NULL,
	query   TEXT NOT NULL,              -- empty: the chart of the most popular videos
	slot    INTEGER NOT NULL,
	rank    INTEGER NOT NULL,           -- from 1
	video   INTEGER NOT NULL,           -- its number
	views   INTEGER,                    -- at that time, if upstream was asked
	PRIMARY KEY (region, query, slot, rank)
) WITHOUT ROWID;

CREATE INDEX appearances_video ON appearances (video, region, slot);

-- What other programs can read: each place in a chart, in words.
CREATE VIEW places AS
	SELECT region, query, datetime(slot, 'unixepoch') AS slot, rank, title, channel, appearances.views, id, 'https://www.youtube.com/watch?v=' || id AS page
	FROM appearances JOIN videos ON videos.number = appearances.video;

-- How far a chart is fetched, or what a query finds, and with which arguments.
CREATE TABLE charts (
	region     TEXT NOT NULL,
	query      TEXT NOT NULL,           -- as of appearances
	slot       INTEGER NOT NULL,        -- of the pass that began it
	arguments  TEXT NOT NULL,
	began_at   INTEGER NOT NULL,
	stored_at  INTEGER NOT NULL,        -- when its last page was stored
	pages      INTEGER NOT NULL,        -- the number of that page
	next       TEXT NOT NULL,           -- the token of the page after it; empty: there is none
	done       INTEGER NOT NULL,        -- 1: as many pages as asked for are stored
	PRIMARY KEY (region, query, slot)
) WITHOUT ROWID;

CREATE INDEX charts_began_at ON charts (began_at);

-- What is indexed. apart is ytfetch's own (words.go): it parts the characters of scripts
-- that have no blanks. Any SQLite program finds rows by the index; what reads or changes
-- these texts takes that function.
CREATE VIEW texts AS
	SELECT number, apart(title) AS title, apart(channel) AS channel, apart(tags) AS tags, apart(description) AS description FROM videos;

-- To the signs of a word belong its marks: in Indian scripts most vowels are some. No mark
-- of a word are those that show an emoji in colour or not: U+FE0F and U+FE0E, which stand
-- between the quotes behind "separators".
CREATE VIRTUAL TABLE search USING fts5 (
	title, channel, tags, description,
	content = 'texts', content_rowid = 'number',
	tokenize = "unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc' separators '️︎'", prefix = '2 3'
);

INSERT INTO search (search, rank) VALUES ('rank', 'bm25(10.0, 5.0, 5.0, 1.0)');

-- The words of a removed video leave the index with it, not at a later merge.
INSERT INTO search (search, rank) VALUES ('secure-delete', 1);

CREATE TRIGGER charts_deleted AFTER DELETE ON charts BEGIN
	DELETE FROM appearances WHERE region = old.region AND query = old.query AND slot = old.slot;
END;

CREATE TRIGGER videos_inserted AFTER INSERT ON videos BEGIN
	INSERT INTO search (rowid, title, channel, tags, description)
		VALUES (new.number, apart(new.title), apart(new.channel), apart(new.tags), apart(new.description));
END;

CREATE TRIGGER videos_deleted AFTER DELETE ON videos BEGIN
	DELETE FROM appearances WHERE video = old.number;
	INSERT INTO search (search, rowid, title, channel, tags, description)
		VALUES ('delete', old.number, apart(old.title), apart(old.channel), apart(old.tags), apart(old.description));
END;

-- A video is fetched again and again; its texts are indexed again when they changed.
CREATE TRIGGER videos_updated AFTER UPDATE OF title, channel, tags, description ON videos
WHEN (old.title, old.channel, old.tags, old.description) IS NOT (new.title, new.channel, new.tags, new.description) BEGIN
	INSERT INTO search (search, rowid, title, channel, tags, description)
		VALUES ('delete', old.number, apart(old.title), apart(old.channel), apart(old.tags), apart(old.description));
	INSERT INTO search (rowid, title, channel, tags, description)
		VALUES (new.number, apart(new.title), apart(new.channel), apart(new.tags), apart(new.description));
END;
