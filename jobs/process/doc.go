// Package process runs the commands of jobs as child processes, and ends what they leave
// behind. It needs Linux and a mounted procfs.
//
// Launch starts a command in a session of its own and, where there is a directory for them, in a
// cgroup of its own, which it enters before it begins, see Enter. It writes to two pipes, which are
// read line by line: while a line is not taken, the command waits. When the command has ended, or is asked to
// end, what is left of its family gets TERM, and KILL after the grace or as soon as it is forced.
//
// A family is what is in the cgroup. Without one it is the command's process group: what has left
// that, as by setsid(2), is not known, and lives on. After a daemon was killed, the next one ends the
// families by the identity that was written down, see EndLeftover.
//
// The package writes nothing to disk but directories below the cgroup. Its one lock has one line of a command
// emitted at a time.
package process
