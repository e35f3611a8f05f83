// Package store keeps the videos that ytfetch fetched in one SQLite file, and finds them
// again.
//
// A video has one row, however often it is fetched (videos). A small row for each slot has its
// rank and views in a region's chart, or in what a query found there (appearances). A chart, and
// a search, has a row that says how far it is fetched (charts). Save writes a page and that row
// in one transaction: what the row names is stored, whenever the process is killed. Triggers
// keep the index of words (search): it follows a video's texts, not its counts.
//
// store.go opens the file, schema.sql says what is in it, page.go reads what upstream answered,
// saves it and removes what is too old, words.go says what is a word, search.go finds videos by
// them, and video.go returns one.
//
// On disk is a file in WAL mode: videos.db, with videos.db-wal and videos.db-shm while a process
// has it open, or after one was killed. Any number of processes may use it at the same time:
// SQLite's locks hold for microseconds, and a writer waits for another. Other
// programs of SQLite read it, and find rows by the index of words (SELECT rowid FROM search
// WHERE search MATCH ...). A Store itself is for one goroutine.
package store
