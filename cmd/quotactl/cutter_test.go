package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// startCutter is the script command "cutter SOCKET DAEMON [PATH]": what is asked at SOCKET
// is answered by the daemon, but the connection is cut before the answer arrives. With
// PATH, only if the path of the request ends so.
func startCutter(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: cutter SOCKET DAEMON [PATH]")
	}
	daemon, path := ts.MkAbs(args[1]), strings.Join(args[2:], "")
	listener, err := net.Listen("unix", ts.MkAbs(args[0]))
	ts.Check(err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { swallow(conn, daemon, path) })
		}
	})
	ts.Defer(func() {
		listener.Close()
		serving.Wait()
	})
}

// swallow hands over one request and keeps its answer back, if its path ends so.
func swallow(client net.Conn, socket, path string) {
	defer client.Close()
	request, err := http.ReadRequest(bufio.NewReader(client))
	if err != nil {
		return
	}
	daemon, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer daemon.Close()
	request.Close = true
	to := io.Discard
	if !strings.HasSuffix(request.URL.Path, path) {
		to = client
	}
	if request.Write(daemon) == nil {
		io.Copy(to, daemon)
	}
}
