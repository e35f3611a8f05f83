package main

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/quota/clientlimit"
)

// openClients opens the service of the clients. Redis counts where hosts share it, else this process does.
func (d *daemon) openClients() error {
	d.clients = clientlimit.NewService(d.emit)
	if d.shared == nil {
		d.clientCounts = clientlimit.NewMemory(time.Now)
		file, err := os.Open(d.statePath("clients"))
		if err == nil {
			err = errors.Join(d.clientCounts.Load(file), file.Close())
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			d.log.Error().Err(err).Msg("cannot read what clients have used: all begin at 0")
		}
		d.onStop("save what clients have used", func() error {
			file, err := os.OpenFile(d.statePath("clients"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
			if err != nil {
				return err
			}
			return errors.Join(d.clientCounts.Save(file), file.Close())
		})
	}
	if err := d.setClients(d.config); err != nil {
		return err
	}
	d.background(d.clients.Watch)
	return nil
}

// setClients replaces the clients by those of a configuration. After an error the former ones stay.
func (d *daemon) setClients(c *config.Config) (err error) {
	store, secret := clientlimit.Store(d.shared), c.ClientSecret
	if d.shared == nil {
		store = d.clientCounts
		if secret == "" && len(c.Clients) > 0 {
			if secret, err = drawnIn(d.statePath("clients.secret")); err != nil {
				return err
			}
		}
	}
	return d.clients.SetClients(store, secret, c.Clients)
}
