package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"quotad/cmd/ytfetch/upstream"
	"quotad/quota"
)

// serve answers as the API does from the built-in upstream, until it is interrupted.
func serve(ctx context.Context, args []string, stderr io.Writer) error {
	var config upstream.Config
	flags := newFlags()
	sample := flags.Bool("sample", false, "")
	listen := flags.String("listen", "127.0.0.1:8080", "")
	flags.IntVar(&config.Quota, "quota", 10_000, "")
	words, err := parseArgs(flags, args)
	switch {
	case err != nil:
		return err
	case len(words) > 0:
		return misused("unexpected argument %q", words[0])
	case !*sample:
		return misused("serve has nothing but the sample: add --sample")
	case config.Quota < 1:
		return misused("--quota must be at least 1: %d", config.Quota)
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return fmt.Errorf("cannot serve: %w", err)
	}
	fmt.Fprintf(stderr, "serving the sample at http://%s%s, %s a day\n",
		listener.Addr(), upstream.Path, quota.Count(config.Quota, "unit", "units"))
	server := &http.Server{Handler: upstream.New(config), ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("cannot serve: %w", err)
	}
	return nil
}
