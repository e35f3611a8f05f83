// Package journal keeps the entries of a credential in files of a host. It does not know what they mean.
//
// DIR/CREDENTIAL has text files 00000001, 00000002 and so on, and begins a new one at 1 MiB. Each line is a record, and
// ends with a CRC-32C in hex. The first record of a file is its header:
//
//	h NUMBER "CREDENTIAL" "FORMAT ID BEFORE" CRC
//	KIND AT "ID" "TEXT" CRC
//
// BEFORE is the last CRC of the file before, in decimal. The CRC of any other record continues that of the line before:
// so a line that is missing, moved or changed is found. DIR/CREDENTIAL.position is like a header, with a size in place
// of BEFORE: up to there the journal was on disk when it was written. That is at Open, at Close, and when a new file
// begins. Headers and the position are put in place whole, by rename.
//
// What was appended is there after a kill, what was synced after a power failure. Open cuts an incomplete last line
// of the last file. It refuses any other damage, and a journal that is missing, another one, or shorter than its
// position. It does not find that whole lines after the position, or the oldest files, were removed.
//
// One process at a time may use a journal: its caller holds a lock. Locks, in their order: disk is held while a file is
// synced, begun or closed; mu for one write(2) and while Drop deletes files, and never while anything is synced.
package journal
