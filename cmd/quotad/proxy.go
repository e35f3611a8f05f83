package main

import (
	"context"
	"fmt"
	stdlog "log"
	"net"

	"quotad/quota/api"
	"quotad/quota/proxy"
)

// openProxy serves calls of passes that know nothing of quotad. It stops after the
// passes: what they sent is settled before the ledger closes.
func (d *daemon) openProxy() error {
	if d.config.Proxy.Listen == "" {
		return nil
	}
	listener, err := net.Listen("tcp", d.config.Proxy.Listen)
	if err != nil {
		return fmt.Errorf("cannot serve the proxy: %w", err)
	}
	complaints := complaints{d.log}
	stdlog.SetFlags(0)
	stdlog.SetOutput(complaints) // where the transport complains
	d.proxy = proxy.New(proxy.Config{
		Address: listener.Addr().String(), Service: d.service, Observer: d.observer, Tokens: d.tokens,
		Emit: d.emit, ErrorLog: stdlog.New(complaints, "", 0),
	})
	if err := d.setTargets(d.config); err != nil {
		listener.Close()
		return err
	}
	d.serveUntilStop("stop the proxy", func() error { return d.proxy.Serve(listener) }, d.proxy.Shutdown)
	d.log.Info().Stringer("address", listener.Addr()).Msg("serving the proxy")
	return nil
}

// proxySection returns the section of the status.
func (d *daemon) proxySection(context.Context) any {
	section := api.Proxy{Address: d.proxy.Root()}
	for _, name := range d.service.Names() {
		if target := d.proxy.Target(name); target != nil {
			section.Credentials = append(section.Credentials, api.Proxied{Name: name, Upstream: target.Upstream.String(), Routes: target.Routes.Len()})
		}
	}
	return section
}
