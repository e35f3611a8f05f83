package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"quotad/cmd/quotad/config"
	"quotad/jobs/process"
)

// The exit codes of quotad.
const (
	exitOK     = 0
	exitError  = 1
	exitUsage  = 2
	exitConfig = 78 // EX_CONFIG
)

// printError prints an error. Each error of the configuration has a line of its own,
// where editors find the file and the line.
func printError(stderr io.Writer, err error) {
	var wrong config.Errors
	if errors.As(err, &wrong) {
		fmt.Fprintln(stderr, wrong)
		return
	}
	fmt.Fprintf(stderr, "quotad: error: %v\n", err)
	if cure := cureOf(err); cure != "" {
		fmt.Fprintf(stderr, "quotad: hint: %s\n", cure)
	}
}

// cures has the cures of errors of the system. Other errors name their cure themselves.
var cures = [...]struct {
	err  error
	cure string
}{
	{syscall.EADDRINUSE, "stop what listens there (ss -ltnp shows it), or change the address in the configuration"},
	{syscall.EADDRNOTAVAIL, "change the address in the configuration to one that this host has"},
	{syscall.ENOSPC, "make room on the disk that holds it"},
	{syscall.EDQUOT, "make room within the disk quota of quotad's user"},
	{syscall.EROFS, "mount the file system for writing; under systemd the state is in StateDirectory= or ReadWritePaths="},
	{syscall.EIO, "the disk fails: read the kernel's log (journalctl -k)"},
}

// cureOf returns what can be done about an error of the system; "" if nothing is known.
func cureOf(why error) string {
	var of *fs.PathError
	if errors.Is(why, fs.ErrPermission) && errors.As(why, &of) {
		return fmt.Sprintf("give it to the user that quotad runs as: chown %s: %s", process.NameOf(os.Geteuid()), of.Path)
	}
	for _, c := range cures {
		if errors.Is(why, c.err) {
			return c.cure
		}
	}
	return ""
}

// firstLine is short enough for a status.
func firstLine(text string) string {
	first, rest, more := strings.Cut(text, "\n")
	if more {
		return fmt.Sprintf("%s (and %d more)", first, strings.Count(rest, "\n")+1)
	}
	return first
}
