package redisledger

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"quotad/quota"
)

const (
	// tellTime is how often a daemon says beside the log what it counts there.
	tellTime = 10 * time.Second
	// heardTime is how long it is believed after it last did.
	heardTime = 2 * time.Minute
)

// Terms are what a daemon says of a credential, to those who share its log.
type terms struct {
	Host  string            `json:"host"` // what people call it
	Ms    int64             `json:"ms"`   // when, by the log's time
	Terms map[string]string `json:"terms"`
}

// termsOf says for each limit and operation of a credential how it is counted.
func termsOf(c *quota.Credential) map[string]string {
	said := make(map[string]string)
	for _, limit := range c.Limits {
		window := limit.Window.String()
		if hours, ok := strings.CutSuffix(window, "h0m0s"); ok {
			window = hours + "h"
		}
		text := fmt.Sprintf("%s per %s", limit.Units.Text(), window)
		if limit.Reserve > 0 {
			text += fmt.Sprintf(" with %s in reserve", quota.Thousands(limit.Reserve))
		}
		if len(limit.Only) > 0 {
			text += " of " + strings.Join(slices.Sorted(slices.Values(limit.Only)), ", ")
		}
		if len(limit.Jobs) > 0 {
			text += " by " + strings.Join(slices.Sorted(slices.Values(limit.Jobs)), ", ")
		}
		if len(limit.ExceptJobs) > 0 {
			text += " by all but " + strings.Join(slices.Sorted(slices.Values(limit.ExceptJobs)), ", ")
		}
		if limit.Lift > 0 {
			text += fmt.Sprintf(" but for the last %s", strings.TrimSuffix(limit.Lift.String(), "m0s"))
		}
		if limit.Observe {
			text += " not enforced"
		}
		said["limit "+limit.Name] = text
	}
	for operation, cost := range c.Operations {
		text := cost.Every.Text()
		if cost.Per != nil {
			var parts []string
			for _, limit := range slices.Sorted(maps.Keys(cost.Per)) {
				parts = append(parts, fmt.Sprintf("%s of %s", cost.Per[limit].Text(), limit))
			}
			text = strings.Join(parts, ", ")
		}
		said["operation "+operation] = text
	}
	return said
}

// agree says what this daemon counts, and notes who counts otherwise. Who shares a log
// and disagrees about it decides by different rules, and nothing else would say so.
func (a *account) agree(ctx context.Context, c *quota.Credential) error {
	client, key := a.ledger.client, a.ledger.key(c.Name, "hosts")
	_, now := a.known()
	mine := terms{Host: a.ledger.host, Ms: now.UnixMilli(), Terms: termsOf(c)}
	text, err := json.Marshal(mine)
	if err != nil {
		return err
	}
	if err := client.HSet(ctx, key, a.ledger.tag, text).Err(); err != nil {
		return err
	}
	if err := client.PExpire(ctx, key, time.Hour).Err(); err != nil {
		return err
	}
	all, err := client.HGetAll(ctx, key).Result()
	if err != nil {
		return err
	}
	delete(all, a.ledger.tag)
	var differences []string
	for _, daemon := range slices.Sorted(maps.Keys(all)) {
		var theirs terms
		if json.Unmarshal([]byte(all[daemon]), &theirs) != nil || now.Sub(time.UnixMilli(theirs.Ms)) > heardTime {
			if err := client.HDel(ctx, key, daemon).Err(); err != nil {
				return err
			}
			continue
		}
		if found := differ(theirs, mine); found != "" {
			differences = append(differences, c.Name+": "+found)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.differences = differences
	return nil
}

// differ says what a host counts otherwise than this one, the first three things.
func differ(theirs, mine terms) string {
	all := maps.Clone(theirs.Terms)
	maps.Copy(all, mine.Terms)
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		there, has := theirs.Terms[name]
		here, have := mine.Terms[name]
		switch {
		case there == here:
		case !has:
			parts = append(parts, fmt.Sprintf("no %s, here %s", name, here))
		case !have:
			parts = append(parts, fmt.Sprintf("%s: %s, here none", name, there))
		default:
			parts = append(parts, fmt.Sprintf("%s: %s, here %s", name, there, here))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	more := ""
	if n := len(parts) - 3; n > 0 {
		parts, more = parts[:3], fmt.Sprintf("; and %d more", n)
	}
	return fmt.Sprintf("host %s shares the ledger and counts otherwise: %s%s", theirs.Host, strings.Join(parts, "; "), more)
}
