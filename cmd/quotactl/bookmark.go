package main

import (
	"context"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	jobsapi "quotad/jobs/api"
)

const bookmarkUsage = `Show the bookmark that the last pass of a region left for the next one, such as
the page at which its budget ended. Without a bookmark it prints nothing. With
--clear the next pass begins at the first page.

Usage:
  quotactl bookmark JOB REGION [--clear]

Flags:
      --clear   remove it

Example:
  $ quotactl bookmark trending FR
  5 CGQQAA
`

func newBookmark(c *cli) *cobra.Command {
	clear := false
	cmd := &cobra.Command{
		Use:               "bookmark JOB REGION",
		Short:             "show or clear what a pass left for the next one",
		Long:              bookmarkUsage,
		Args:              arguments("JOB", "REGION"),
		ValidArgsFunction: c.completeJobAndRegion,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.bookmark(cmd.Context(), args[0], args[1], clear)
		},
	}
	cmd.Flags().BoolVar(&clear, "clear", false, "")
	return cmd
}

func (c *cli) bookmark(ctx context.Context, job, region string, clear bool) error {
	ask := c.operator().Bookmark
	if clear {
		ask = c.operator().ClearBookmark
	}
	bookmark, err := ask(ctx, job, region)
	if err != nil {
		return c.explain(err)
	}
	return c.print(answer{
		body:  bookmark,
		value: noInteger("a bookmark"),
		table: func(v term.View) string { return bookmarkText(bookmark, v) },
	})
}

func bookmarkText(b jobsapi.Bookmark, v term.View) string {
	if b.Bookmark == "" {
		return ""
	}
	return v.Clean(b.Bookmark) + "\n"
}
