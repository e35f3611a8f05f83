package main

import (
	"io"
	"os"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}

// run carries out one command line and returns its exit code. Answers go to
// stdout, everything else to stderr.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int {
	c := &cli{stdin: stdin, stdout: stdout, stderr: stderr, env: environ}
	root := newRoot(c)
	// cobra reads nil as "use os.Args".
	root.SetArgs(append([]string{}, negativeLast(root, args)...))
	return c.report(root.Execute())
}
