package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// startCutter is the script command "cutter SOCKET DAEMON": what is asked at SOCKET
// is answered by the daemon, but the connection is cut before the answer arrives.
func startCutter(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: cutter SOCKET DAEMON")
	}
	daemon := ts.MkAbs(args[1])
	listener, err := net.Listen("unix", ts.MkAbs(args[0]))
	ts.Check(err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { swallow(conn, daemon) })
		}
	})
	ts.Defer(func() {
		listener.Close()
		serving.Wait()
	})
}

// swallow hands over one request and keeps its answer back.
func swallow(client net.Conn, path string) {
	defer client.Close()
	request, err := http.ReadRequest(bufio.NewReader(client))
	if err != nil {
		return
	}
	daemon, err := net.Dial("unix", path)
	if err != nil {
		return
	}
	defer daemon.Close()
	request.Close = true
	if request.Write(daemon) == nil {
		io.Copy(io.Discard, daemon)
	}
}
