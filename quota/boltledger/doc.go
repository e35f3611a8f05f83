// Package boltledger keeps the records of client limits on one host, in the file clients.db: [Clients]. That file is not
// synced: a subject whose record is lost has its whole budget again. A batch is written in one transaction. Expired
// records are removed in the background. A damaged file is moved to clients.db.damaged.
//
// Clients.mu is held while the file is used: that waits for the page cache, and not for the disk.
package boltledger
