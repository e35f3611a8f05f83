package main

import "quotad/quota/outage"

// outage writes a line for each edge of a shared ledger's outage.
func (e events) outage(event outage.Event) {
	line := e.log.Warn()
	if event.Kind == outage.Up {
		line = e.log.Info().Int64("took_ms", event.Took.Milliseconds()).Int64("units", int64(event.Units))
	}
	if event.Kind == outage.Restored {
		line.Int("records", event.Records)
	}
	if event.Err != nil {
		line.Err(event.Err)
	}
	line.Str("credential", event.Credential).Msg("ledger " + string(event.Kind))
}
