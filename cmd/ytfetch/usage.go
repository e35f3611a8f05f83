package main

const usage = `ytfetch - fetch from the YouTube Data API within quotad's budget, find it again

Usage:
  ytfetch trending [--region CODE] [--out DIR] [--pages N] [--fresh 10m] [--retain 30d]
                   [--base-url URL | --upstream URL | --sample]
  ytfetch discover QUERY... [--since 1d], and all that trending takes
  ytfetch search WORDS... [--region CODE] [--since 7d] [--by relevance|views|date]
                 [--limit 20] [--page 1] [-o table|json] [--out DIR]
  ytfetch serve --sample [--listen 127.0.0.1:8080] [--key KEY] [--quota 10000] [--pages 4]
  ytfetch man                      print this text as the manual page ytfetch(1)

trending fetches the chart of a region's most popular videos, page by page
(videos.list, chart=mostPopular, 50 videos a page). It asks quotad before every
call, stops when quotad denies one, and keeps the pages it has; after each page it
leaves a bookmark, so that the next pass of the region continues there. Since July
2025 this chart holds trending music, films and games.

discover asks upstream for the newest videos of a query (search.list, 100 units a
page of 50; the query as YouTube reads it: '"golden river" -live'), and for all of
those that are not stored yet (videos.list by id, 1 unit a page). It searches what
was published since its last search of the region, and an hour before that, which
upstream may have listed late. Its bookmark holds what a page found: if the list is
denied, the next pass continues there, and does not pay for the search again.

  --region CODE    region, ISO 3166-1 alpha-2 (default $QUOTAD_REGION)
  --out DIR        the directory of videos.db (default the current one): it has one row
                   for each video, however often it is fetched, and a small one for each
                   place in a chart; several regions at once, and any SQLite program
                   beside them
  --pages N        at most N pages (default of trending 0: all there are, about 4; of
                   discover 1, and upstream has at most about 10)
  --since 1d       (discover) how far the first search of a region goes back
  --fresh 10m      a chart or search of a region that was begun less than this ago, by
                   the same arguments, is not fetched again: exit code 0 without a call
  --retain 30d     at the end of the pass, remove what was fetched longer ago (0: never),
                   at most 500 videos a pass. What was got without a user's authorisation
                   may be kept for at most 30 calendar days: YouTube API Services
                   Developer Policies, III.E.4. Between passes nothing is removed: a
                   job that runs once a day takes --retain 29d
  --base-url URL   the API (default https://www.googleapis.com/youtube/v3)
  --upstream URL   the API behind quotad's proxy, which acquires each call by itself and
                   has the key: '$QUOTAD_PROXY', in these quotes, is filled in here,
                   where no process list shows it
  --sample         answer from a built-in upstream: no key, no network

search spends nothing, and needs neither quotad nor a network. It looks for videos.db
in DIR, else here, in .quotad/data/JOB and in /var/lib/quotad/data/JOB. It finds
videos that have all words in their title, channel, tags or description, the best
first (bm25; the newest 2,000 of those that have them; with --region and --since,
those of the newest 20,000). Accents and case do not count; riv* finds what begins
with riv, '"golden river"' what has these words side by side, 'golden -river' what has
one and not the other; other characters than letters and digits separate words. In
scripts whose words have no blanks between them (東京タワー), and in Korean, text is found
wherever it occurs. --since 7d: that were in a chart, or discovered, within that time;
with --region, in that one. Any SQLite program reads videos.db: its view places has a
row for each place in a chart (sqlite3 videos.db 'SELECT * FROM places', or datasette
videos.db).

serve answers as the API does, over HTTP, from the built-in upstream: videos.list and
search.list, page by page, for any key (or only for --key), and with YouTube's own
quotaExceeded when the units of the day are used up. So a job, or quotad's proxy, can be tried
without a key. It runs until it is interrupted.

Environment:
  YOUTUBE_API_KEY      the key, unless --sample; it is never printed or stored
  QUOTAD_SOCKET        where quotad listens; also QUOTAD_TOKEN, QUOTAD_REGION,
                       QUOTAD_SCHEDULED_AT, QUOTAD_DEADLINE, QUOTAD_JOB_DIR:
                       set by quotad
  QUOTAD_CREDENTIAL    which credential to spend from; by hand it must be set

Progress goes to stderr, one line a page.

Exit codes:
  0    done: the last page, or the Nth, is stored, or was lately
  1    failed: upstream, network or disk; the message says which
  64   wrong command line or environment
  69   quotad cannot be reached, or answers 503 because it cannot decide: nothing was
       fetched without asking
  75   stopped, no units are left: quotad denied a call, or upstream itself said
       that its day is over; pages fetched so far are kept, and the next pass of
       the region continues after them
  78   configuration: the key, the region, the credential or the operation is not
       accepted; asking again is useless
  143  interrupted by SIGTERM or SIGINT; pages fetched so far are kept

Example: one page for Germany, by hand, on the account of credential youtube
  $ QUOTAD_CREDENTIAL=youtube ytfetch trending --sample --region DE --pages 1 --out data
  page 1: 50 videos, 9,499 units left
  done: 50 videos on 1 page in data/videos.db
  $ ytfetch search golden --out data
`
