package server

import (
	"fmt"
	"net"
	"net/http"
	"os/user"
	"slices"
	"strconv"
	"syscall"
)

// A peer is the process at the other end of a connection, as it was when it
// connected: by now the pid may be another's, so only the uid gives rights.
type peer struct {
	uid int // unknownUID when not known
	pid int // 0 when not known
	// refusal says why the connection is one too many; empty: it is not.
	refusal string
	only    []string // the paths that it may ask for; nil: all
}

// unknownUID stands for a caller who cannot be told, as on TCP.
const unknownUID = -1

// peerFrom returns who is at the other end of a request's connection.
func peerFrom(r *http.Request) peer {
	if c := connectionOf(r); c != nil {
		return c.peer
	}
	return peer{uid: unknownUID}
}

func peerOf(conn net.Conn) peer {
	unknown := peer{uid: unknownUID}
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return unknown
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return unknown
	}
	var cred *syscall.Ucred
	err2 := raw.Control(func(fd uintptr) {
		cred, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err != nil || err2 != nil {
		return unknown
	}
	return peer{uid: int(cred.Uid), pid: int(cred.Pid)}
}

// isOperator tells whether uid is root or a member of the admin group. The user
// database is read each time: whoever leaves the group loses the right at once.
// An unknown group has no members.
func isOperator(uid int, adminGroup string) bool {
	if uid <= 0 {
		return uid == 0
	}
	group, err := user.LookupGroup(adminGroup)
	if err != nil {
		return false
	}
	member, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return false
	}
	groups, err := member.GroupIds()
	return err == nil && slices.Contains(groups, group.Gid)
}

// becomeOperator says how uid comes to be an operator. The group counts at once,
// see isOperator: nobody has to log in again.
func becomeOperator(uid int, adminGroup string) string {
	name := strconv.Itoa(uid)
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	join := fmt.Sprintf("usermod -aG %s %s", adminGroup, name)
	if _, err := user.LookupGroup(adminGroup); err != nil {
		join = fmt.Sprintf("groupadd %s && %s", adminGroup, join)
	}
	return "ask as root, or become a member of the group, as root: " + join
}
