package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"quotad/quota"
)

// token is a phrase, a parenthesis, or a word. A quote that is not closed is left out.
var token = regexp.MustCompile(`-?"[^"]*"\*?|[()]|[^\s"()]+`)

// expression writes words as FTS5 reads them, and returns the terms among them: each in quotes, so that nothing in it
// is special. What has no letter and no digit is left out.
func expression(words string) (match string, terms []string) {
	var parts []string
	for _, text := range token.FindAllString(strings.ToValidUTF8(words, " "), -1) {
		bare, without := strings.CutPrefix(text, "-")
		switch {
		case text == "OR", text == "AND", text == "NOT", text == "(", text == ")":
			parts = append(parts, text)
			continue
		case !strings.ContainsFunc(text, func(r rune) bool { return unicode.In(r, unicode.L, unicode.N) }):
			continue
		case without && parts != nil:
			parts = append(parts, "NOT")
		}
		term := `"` + strings.Trim(bare, `"*`) + `"`
		if strings.HasSuffix(bare, "*") {
			term += "*"
		}
		parts, terms = append(parts, term), append(terms, term)
	}
	return strings.Join(parts, " "), terms
}

// found asks for what is found, the best first: a word in the title counts ten times, one in the channel's name or a
// tag five times as much as one in the description.
const found = `SELECT id, v.title, v.channel, views, seen, count(*) OVER (),
	(SELECT group_concat(region, ' ' ORDER BY region) FROM places WHERE video = number)
FROM texts JOIN videos v ON number = texts.rowid
WHERE texts MATCH ?1 AND (?2 = '' OR EXISTS (SELECT 1 FROM places WHERE video = number AND region = ?2))
ORDER BY texts.rank LIMIT ?3`

const maxText = 400 // bytes of a title, of a channel's name, of an id

// search prints what is found.
func search(ctx context.Context, db *sql.DB, words, region string, limit int) error {
	match, terms := expression(words)
	if terms == nil {
		return misused("a word has a letter or a digit")
	}
	known, err := ask(ctx, db, "SELECT group_concat(DISTINCT region ORDER BY region) FROM places")
	if err != nil {
		return err
	} else if region != "" && !slices.Contains(strings.Split(known, ","), region) {
		return misused("nothing was fetched for region %q, but for %s", region, known)
	}
	rows, err := db.QueryContext(ctx, found, match, region, limit)
	if err != nil {
		return err
	}
	defer rows.Close()
	shown, total := 0, 0
	for ; rows.Next(); shown++ {
		var id, title, channel, seen, regions string
		var views int64
		if err := rows.Scan(&id, &title, &channel, &views, &seen, &total, &regions); err != nil {
			return err
		}
		fmt.Printf("%s\n  %s, %s, in %s, seen %.10s  https://youtu.be/%s\n",
			quota.Clipped(title, maxText), quota.Clipped(channel, maxText), quota.Count(views, "view", "views"), regions, seen,
			quota.Clipped(id, maxText))
	}
	switch err := rows.Err(); {
	case err != nil && strings.Contains(err.Error(), "fts5"):
		return misused("%v", err)
	case err != nil:
		return err
	case total > shown:
		fmt.Printf("%d of %s; --limit %d shows all\n", shown, quota.Count(total, "video", "videos"), total)
	case total == 0:
		rows.Close()
		return nothing(ctx, db, terms)
	}
	return nil
}

// nothing returns why nothing was found: no video has one of the terms, or none has all.
func nothing(ctx context.Context, db *sql.DB, terms []string) error {
	for _, term := range terms {
		has, err := ask(ctx, db, "SELECT rowid FROM texts WHERE texts MATCH ? LIMIT 1", term)
		if err != nil {
			return err
		} else if has == "" {
			return fmt.Errorf("no video has %s", term)
		}
	}
	return errors.New("no video has all of these words")
}

// ask returns the one text that a query selects; empty: none.
func ask(ctx context.Context, db *sql.DB, query string, arguments ...any) (text string, err error) {
	err = db.QueryRowContext(ctx, "SELECT ifnull(("+query+"), '')", arguments...).Scan(&text)
	return text, err
}
