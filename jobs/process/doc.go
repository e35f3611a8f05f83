// Package process runs the commands of jobs as child processes, and leaves nothing
// of them behind. It needs Linux and a mounted procfs.
//
// Launch starts a command in a session of its own and, where systemd delegates cgroups, in a
// cgroup of its own, which it enters before it begins, see Enter. It writes to two pipes, which are
// read line by line, and a queue emits the lines at a bounded rate. A goroutine waits for the
// command on a pidfd, which needs no thread. When the command has ended, or is asked to
// end, the tree of its processes gets TERM, and KILL after the grace or as soon as it is forced.
//
// The tree is what is in the cgroup, and what has left it. With a Reaper every orphan becomes a
// child of this process (PR_SET_CHILD_SUBREAPER): all that a command starts stays below us, also
// without a cgroup, or if the command may move itself out of it. An orphan belongs to the command
// whose session it is in, or whose marks, the run and the region, are in its environment. One with
// neither is ended with the last command that ran when it began. A cgroup that belongs to no
// command is emptied when a command ends. After a daemon was killed, the next one finds the trees
// among all processes, by the identity that was written down, see EndLeftover.
//
// The package writes nothing to disk but directories below the cgroup. It has three
// locks, Reaper.mu, Cgroups.mu and queue.mu, and none is taken under another.
package process
