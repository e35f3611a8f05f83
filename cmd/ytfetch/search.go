package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"quotad/cmd/quotactl/term"
	"quotad/cmd/ytfetch/store"
	"quotad/quota"
)

const defaultLimit = 20

// search finds videos by words.
func (r *reader) search(ctx context.Context, words []string) (err error) {
	if r.region != "" {
		if r.region, err = regionOf(r.region); err != nil {
			return err
		}
	}
	// A search ranks no more: what is after that is empty, however many pages after.
	before, limit := min(r.page-1, store.MaxRanked), min(r.limit, store.MaxRanked)
	query := store.Query{Words: strings.Join(words, " "), Region: r.region, Limit: limit, Offset: before * limit, By: store.Order(r.by)}
	switch {
	case r.page < 1:
		return misused("--page must be at least 1: %d", r.page)
	case !slices.Contains([]store.Order{store.ByRelevance, store.ByViews, store.ByDate}, query.By):
		return misused("--by must be relevance, views or date: %q", r.by)
	case !store.HasWords(query.Words):
		return misused("there is nothing to search for: a word has a letter or a digit")
	case r.limit < 1:
		return misused("--limit must be at least 1: %d", r.limit)
	}
	if r.since > 0 {
		query.Since = r.now.Add(-r.since)
	}
	found, err := r.file.Search(ctx, query)
	if err != nil {
		return err
	}
	err = r.print(found, func(b *strings.Builder) { r.printFound(b, found, query) })
	if err == nil && found.Total == 0 {
		return errors.New("nothing found")
	}
	return err
}

// printFound prints what was found, and how much of it that is.
func (r *reader) printFound(b *strings.Builder, found store.Found, q store.Query) {
	for _, hit := range found.Hits {
		r.printHit(b, hit)
	}
	or := ""
	if found.More {
		or = " or more"
	}
	switch shown := len(found.Hits); {
	case found.Total == 0:
	case shown == 0:
		r.view.Prose(b, 0, term.Faint, fmt.Sprintf("no more: there are %s%s", quota.Thousands(found.Total), or))
	case shown < found.Total:
		text := fmt.Sprintf("%d to %d of %s%s", q.Offset+1, q.Offset+shown, quota.Thousands(found.Total), or)
		if q.Offset+shown < found.Total {
			text += fmt.Sprintf("; --page %d shows the next", r.page+1)
		}
		r.view.Prose(b, 0, term.Faint, text)
	}
}

// printHit prints a video that was found: the title, what else is known, where the words are.
func (r *reader) printHit(b *strings.Builder, hit store.Hit) {
	r.flow(b, 0, term.Plain, hit.Highlight.Title)
	r.view.Prose(b, 2, term.Faint, strings.Join(r.facts(hit.Video), ", ")+"  "+hit.ID)
	if slices.ContainsFunc(hit.Highlight.Description, func(part store.Part) bool { return part.Match }) {
		r.flow(b, 2, term.Faint, hit.Highlight.Description)
	}
}

// facts are what is known of a video, in a few words each.
func (r *reader) facts(v store.Video) []string {
	facts := []string{v.Channel}
	if v.Views != nil {
		facts = append(facts, quota.Count(*v.Views, "view", "views"))
	}
	if v.DurationS != nil {
		facts = append(facts, term.Brief(time.Duration(*v.DurationS)*time.Second))
	}
	if len(v.Regions) > 0 {
		facts = append(facts, "in "+strings.Join(v.Regions, " "))
	}
	return append(facts, "seen "+term.Brief(r.now.Sub(v.LastSeen))+" ago")
}

// flow writes parts of a text as lines of words that begin at indent and end before the
// screen does. What was found stands out.
func (r *reader) flow(b *strings.Builder, indent int, style term.Style, parts []store.Part) {
	margin, column := strings.Repeat(" ", indent), indent
	b.WriteString(margin)
	for _, part := range parts {
		painted := style
		if part.Match {
			painted = term.Bold
		}
		for i, word := range strings.SplitAfter(r.view.Clean(part.Text), " ") {
			width := utf8.RuneCountInString(word)
			if i > 0 && column > indent && column+utf8.RuneCountInString(strings.TrimRight(word, " ")) > r.view.Width {
				b.WriteString("\n" + margin)
				column = indent
			}
			b.WriteString(r.view.Paint(painted, word))
			column += width
		}
	}
	b.WriteString("\n")
}

// show prints one video.
func (r *reader) show(_ context.Context, words []string) error {
	if len(words) != 1 {
		return misused("show takes the id of one video")
	}
	video, err := r.file.Show(words[0])
	if errors.Is(err, store.ErrUnknown) {
		return &failure{exitFailed, fmt.Errorf("%w: %q", err, words[0]), "ytfetch search WORDS finds it by its texts"}
	} else if err != nil {
		return err
	}
	return r.print(video, func(b *strings.Builder) { r.printVideo(b, video) })
}

func (r *reader) printVideo(b *strings.Builder, v store.Portrait) {
	rows := [][2]string{
		{"title", v.Title}, {"id", v.ID}, {"page", "https://www.youtube.com/watch?v=" + v.ID},
		{"channel", v.Channel + " " + v.ChannelID}, {"category", v.Category}, {"tags", strings.Join(v.Tags, ", ")},
		{"counts", r.counts(v.Video)},
	}
	if v.Published != nil {
		rows = append(rows, [2]string{"published", r.view.When(*v.Published)})
	}
	if v.DurationS != nil {
		rows = append(rows, [2]string{"duration", term.Brief(time.Duration(*v.DurationS) * time.Second)})
	}
	rows = append(rows, [2]string{"first seen", r.view.When(v.FirstSeen)}, [2]string{"last seen", r.view.When(v.LastSeen)})
	for _, stay := range v.Stays {
		in, charts := "in "+stay.Region, quota.Count(stay.Charts, "chart", "charts")
		if stay.Query != "" {
			in, charts = "found in "+stay.Region, quota.Count(stay.Charts, "search", "searches")+" for "+stay.Query
		}
		rows = append(rows, [2]string{in, fmt.Sprintf("rank %d, at best %d, in %s until %s", stay.LastRank, stay.BestRank, charts, r.view.Clock(stay.Last)+r.view.ZoneMark())})
	}
	rows = append(rows, [2]string{"description", v.Description})
	rows = slices.DeleteFunc(rows, func(row [2]string) bool { return strings.TrimSpace(row[1]) == "" })
	b.WriteString(term.Pairs(rows, r.view))
}

func (r *reader) counts(v store.Video) string {
	var counts []string
	for _, c := range []struct {
		n         *int64
		one, many string
	}{{v.Views, "view", "views"}, {v.Likes, "like", "likes"}, {v.Comments, "comment", "comments"}} {
		if c.n != nil {
			counts = append(counts, quota.Count(*c.n, c.one, c.many))
		}
	}
	return strings.Join(counts, ", ")
}

// stats counts what is stored.
func (r *reader) stats(context.Context, []string) error {
	stats, err := r.file.Stats()
	if err != nil {
		return err
	}
	return r.print(stats, func(b *strings.Builder) { r.printStats(b, stats) })
}

func (r *reader) printStats(b *strings.Builder, s store.Stats) {
	rows := [][2]string{
		{"file", fmt.Sprintf("%s, %s kB", s.Path, quota.Thousands((s.Bytes+999)/1000))},
		{"stored", quota.Count(s.Videos, "video", "videos") + ", " + quota.Count(s.Appearances, "appearance", "appearances") + " in charts"},
	}
	if s.Oldest != nil {
		rows = append(rows, [2]string{"oldest", r.view.When(*s.Oldest)}, [2]string{"newest", r.view.When(*s.Newest)})
	}
	b.WriteString(term.Pairs(rows, r.view))
	if len(s.Regions) == 0 {
		return
	}
	table := term.Table{Columns: []term.Column{{Head: "REGION"}, {Head: "CHARTS", Right: true}, {Head: "VIDEOS", Right: true}, {Head: "LAST"}, {Head: "QUERY"}}}
	for _, region := range s.Regions {
		table.Add(region.Region, region.Charts, region.Videos, r.view.When(region.StoredAt), r.view.Clean(region.Query))
	}
	table.Render(b, r.view)
}
