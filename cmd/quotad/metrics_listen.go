package main

import (
	"fmt"
	"net"

	"quotad/quota/server"
)

// serveMetrics answers scrapes at the configured loopback address too, and at
// nothing else there but whether the daemon is well.
func (d *daemon) serveMetrics(s *server.Server) error {
	if d.config.Metrics == "" {
		return nil
	}
	listener, err := net.Listen("tcp", d.config.Metrics)
	if err != nil {
		return fmt.Errorf("cannot serve metrics: %w", err)
	}
	d.serving.Go(func() { d.fail(s.ServeOnly(listener, "/metrics", "/healthz", "/readyz")) })
	d.log.Info().Stringer("address", listener.Addr()).Msg("serving metrics")
	return nil
}
