// Package process runs the commands of jobs as child processes, and leaves nothing
// of them behind. It needs Linux and a mounted procfs.
//
// Launch starts a command in a session of its own and, where systemd delegates
// cgroups, in a cgroup of its own. Two pipes take what it writes; a lineWriter splits
// that into lines, and a queue emits them at a bounded rate. A goroutine waits for the
// command on a pidfd, which takes no thread. When the command has ended, or when its
// context has, the tree of its processes gets TERM, and KILL after the grace.
//
// The tree is what is in the cgroup. Without one it is the session, what carries the
// run's variables in its environment, and their children, found in procfs. A daemon
// that was killed finds the tree again by the identity that it wrote down, see
// EndLeftover.
//
// The package writes nothing to disk but directories below the cgroup. It has two
// locks, child.mu and queue.mu, and neither is taken under the other.
package process
