package main

const usage = `ytfetch - fetch from the YouTube Data API within quotad's budget

Usage:
  ytfetch trending [--region CODE] [--out DIR] [--pages N] [--base-url URL] [--sample]

trending fetches the chart of a region's most popular videos, page by page
(videos.list, chart=mostPopular, 50 videos a page). It asks quotad before every
call, stops when quotad denies one, and keeps the pages it has; after each page it
leaves a bookmark, so that the next pass of the region goes on there, in a SLOT of
its own. Since July 2025 this chart holds trending music, films and games.

Flags:
  --region CODE    region, ISO 3166-1 alpha-2 (default $QUOTAD_REGION)
  --out DIR        where pages are stored (default the current directory):
                   DIR/CODE/SLOT/page-001.jsonl, one video a line; SLOT is
                   $QUOTAD_SCHEDULED_AT in UTC, or now, as 20060102T150405Z
  --pages N        at most N pages (default 0: all there are, about 4)
  --base-url URL   the API (default https://www.googleapis.com/youtube/v3)
  --sample         answer from a built-in upstream: no key, no network

Environment:
  YOUTUBE_API_KEY      the key, unless --sample; it is never printed or stored
  QUOTAD_SOCKET        where quotad listens; also QUOTAD_TOKEN, QUOTAD_REGION,
                       QUOTAD_SCHEDULED_AT, QUOTAD_DEADLINE, QUOTAD_BOOKMARK:
                       set by quotad
  QUOTAD_CREDENTIAL    which credential to spend from; by hand it must be set

Progress goes to stderr, one line a page.

Exit codes:
  0    done: the last page, or the Nth, is stored
  1    failed: upstream, network or disk; the message says which
  64   wrong command line or environment
  69   quotad or its ledger cannot be reached: nothing was fetched without asking
  75   stopped, the budget is gone: quotad denied a call, or upstream itself said
       that its day is over; pages fetched so far are kept, and the next pass of
       the region goes on behind them
  78   configuration: the key, the region, the credential or the operation is not
       accepted; asking again is useless
  143  interrupted by SIGTERM or SIGINT; pages fetched so far are kept

Example: one page for Germany, by hand, on the account of credential youtube
  $ QUOTAD_CREDENTIAL=youtube ytfetch trending --sample --region DE --pages 1 --out data
  page 1: 50 videos, 9,499 units left
  done: 50 videos on 1 page in data/DE/20261121T120000Z
  $ head -n 1 data/DE/20261121T120000Z/page-001.jsonl | cut -c -40
`
