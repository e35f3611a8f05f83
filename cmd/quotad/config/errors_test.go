package config

import (
	"errors"
	"strings"
	"testing"

	"quotad/jobs/process"
)

// Each row changes one thing in the good file and names every error that follows.
func TestErrors(t *testing.T) {
	tests := []struct {
		name     string
		old, new string   // what stands in the good file, and what takes its place
		want     []string // each error, behind "config.toml:"
	}{
		{"not TOML", `units = 10_000`, `units = `, []string{`6: credentials.youtube.limits.daily.units: not TOML: expected value but found '\n' instead`}},
		{"no such key", `reserve = 500`, `reserv = 500`, []string{`7: credentials.youtube.limits.daily.reserv: unknown key: did you mean "reserve"?`}},
		{"no such table", `[ledger]`, `[leger]`, []string{`2: leger: unknown key: did you mean "ledger"?`}},
		{"on_violation", `backend = "embedded"`, `on_violation = "close"`, []string{
			`3: ledger.on_violation: is no key any more: remove it: quotad no longer checks its own books while it runs`,
		}},
		{"a key like no other", `timeout =`, `quantity =`, []string{`26: jobs.trending.quantity: unknown key: known are "after", "command", "credential", "cron", "dir", "env", "env_file", "every", "expects", "host", "max_wait", "missed", "parallel", "regions", "retry", "retry_after", "run_at_start", "schedule", "stagger", "timeout", "timezone", "use_reserve"`}},
		{"several at once", "units = 10_000\nreserve = 500", "units = \"10k\"\nreserve = 1.5\nwindows = 1", []string{
			`6: credentials.youtube.limits.daily.units: must be a whole number, not the string "10k"`,
			`7: credentials.youtube.limits.daily.reserve: must be a whole number, not 1.5`,
			`8: credentials.youtube.limits.daily.windows: unknown key: did you mean "window"?`,
		}},
		{"units missing", "units = 10_000\n", "", []string{`5: credentials.youtube.limits.daily.units: is missing: add units = 10_000`}},
		{"reserve", `reserve = 500`, `reserve = 10_000`, []string{
			`7: credentials.youtube.limits.daily.reserve: must be at least 0 and less than units (10000): 10000`,
		}},
		{"reserve below zero", `reserve = 500`, `reserve = -1`, []string{`7: credentials.youtube.limits.daily.reserve: must be at least 0 and less than units (10000): -1`}},
		{"window malformed", `window = "24h"`, `window = "a day"`, []string{`8: credentials.youtube.limits.daily.window: "a day" is not a duration: write a number with its unit, such as "90s", "30m", "24h" or "7d"`}},
		{"window without unit", `window = "24h"`, `window = 24`, []string{`8: credentials.youtube.limits.daily.window: must be a duration in quotes, such as "90s", "30m", "24h" or "7d", not 24`}},
		{"window zero", `window = "24h"`, `window = "0s"`, []string{`8: credentials.youtube.limits.daily.window: must be longer than zero`}},
		{"window negative", `window = "24h"`, `window = "-24h"`, []string{`8: credentials.youtube.limits.daily.window: "-24h" is below zero`}},
		{"window too long", `window = "24h"`, `window = "400d"`, []string{`8: credentials.youtube.limits.daily.window: a sliding window is at most 366d long: 400d`}},
		{"calendar window without zone", `window = "24h"`, `window = { calendar = "day" }`, []string{`8: credentials.youtube.limits.daily.window.timezone: is missing: add timezone = "America/Los_Angeles", where the period begins`}},
		{"a period without its beginning", `window = "24h"`, `window = { every = "24h" }`, []string{`8: credentials.youtube.limits.daily.window.from: is missing: add from = "2026-01-01T11:30:15Z", when a period began`}},
		{"a beginning without its period", `window = "24h"`, `window = { from = "2026-01-01T11:30:15Z" }`, []string{`8: credentials.youtube.limits.daily.window.every: is missing: add every = "24h"`}},
		{"a period of both kinds", `window = "24h"`, `window = { every = "24h", from = "2026-01-01T11:30:15Z", calendar = "day" }`, []string{`8: credentials.youtube.limits.daily.window.calendar: cannot be combined with every and from: remove it, or them`}},
		{"a beginning without a zone", `window = "24h"`, `window = { every = "24h", from = 2026-01-01T11:30:15 }`, []string{`8: credentials.youtube.limits.daily.window.from: must be a time with its zone, such as "2026-01-01T11:30:15Z"`}},
		{"a beginning in words", `window = "24h"`, `window = { every = "24h", from = "today" }`, []string{`8: credentials.youtube.limits.daily.window.from: must be a time with its zone, such as "2026-01-01T11:30:15Z"`}},
		{"a beginning long ago", `window = "24h"`, `window = { every = "24h", from = 1066-10-14T09:00:00Z }`, []string{`8: credentials.youtube.limits.daily.window: a period begins in the years 1970 to 2199: 24h from 1066-10-14T09:00:00Z`}},
		{"a period of seconds", `window = "24h"`, `window = { every = "10s", from = "2026-01-01T11:30:15Z" }`, []string{`8: credentials.youtube.limits.daily.window: a period from an instant has whole milliseconds, from 1m to 366d: 10s from 2026-01-01T11:30:15Z`}},
		{"calendar window with faults", `window = "24h"`, "window = { calendar = \"week\",\n timezone = \"America/Los_Angels\", offset = 1 }", []string{
			`8: credentials.youtube.limits.daily.window.calendar: must be one of "hour", "day", "month", not "week"`,
			`9: credentials.youtube.limits.daily.window.offset: unknown key: known are "calendar", "every", "from", "timezone"`,
			`9: credentials.youtube.limits.daily.window.timezone: unknown time zone "America/Los_Angels": use a name of the IANA database, such as "Europe/Berlin"`,
		}},
		{"only unknown", `only = ["search.list"]`, `only = ["search.list",` + "\n" + `"serch"]`, []string{`13: credentials.youtube.limits.search.only: unknown operation "serch": list it under operations`}},
		{"only of another type", `only = ["search.list"]`, "only = [\n1]", []string{`13: credentials.youtube.limits.search.only: must hold strings in quotes, not 1`}},
		{"jobs and except_jobs", `only = ["search.list"]`, "jobs = [\"trending\"]\nexcept_jobs = [\"trending\"]", []string{`14: credentials.youtube.limits.search.except_jobs: cannot be combined with jobs: remove one of them`}},
		{"jobs unknown", `only = ["search.list"]`, `jobs = ["trendign"]`, []string{`13: credentials.youtube.limits.search.jobs: there is no job "trendign": did you mean "trending"?`}},
		{"except_jobs unknown", `only = ["search.list"]`, `except_jobs = ["backfill"]`, []string{`13: credentials.youtube.limits.search.except_jobs: there is no job "backfill": known are "trending"`}},
		{"no jobs", `only = ["search.list"]`, `jobs = []`, []string{`13: credentials.youtube.limits.search.jobs: must name at least one job: leave it out for a limit that counts everybody's calls`}},
		{"no except_jobs", `only = ["search.list"]`, `except_jobs = []`, []string{`13: credentials.youtube.limits.search.except_jobs: must name at least one job: leave it out for a limit that counts everybody's calls`}},
		{"a job twice", `only = ["search.list"]`, `jobs = ["trending", "trending"]`, []string{`13: credentials.youtube.limits.search.jobs: job "trending" is listed twice: remove one`}},
		{"a job of another credential", `[credentials.youtube.operations]`, "[credentials.b]\nlimits.pool.units = 9\nlimits.share = { units = 1, jobs = [\"trending\"] }\noperations.list = 1\n[credentials.youtube.operations]",
			[]string{`17: credentials.b.limits.share.jobs: job "trending" spends from credential "youtube", not from this one`}},
		{"free for everybody else", "window = \"24h\"\n", "window = \"24h\"\njobs = [\"trending\"]\n", []string{`18: credentials.youtube.operations."videos.list": only limits with jobs of their own count this operation, so it would be free for everybody else: let a limit without jobs count it`}},
		{"free for a job", "window = \"24h\"\n", "window = \"24h\"\nexcept_jobs = [\"trending\"]\n", []string{`18: credentials.youtube.operations."videos.list": no limit counts this operation for job "trending", so it would be free: let a limit without except_jobs count it`}},
		{"a share less than expected", `only = ["search.list"]`, "only = [\"videos.list\"]\njobs = [\"trending\"]\nreserve = 3_997", []string{`26: jobs.trending.expects: a pass expects 4 units of limit "search", which never has more than 3 (units less reserve)`}},
		{"keep too long", `[credentials.youtube.operations]`, "[credentials.youtube]\nkeep = \"400d\"\n[credentials.youtube.operations]", []string{
			`16: credentials.youtube.keep: must be from 10m to 366d: 400d; leave it out to keep what the limits count`}},
		{"keep too short", `[credentials.youtube.operations]`, "[credentials.youtube]\nkeep = \"599s\"\n[credentials.youtube.operations]", []string{
			`16: credentials.youtube.keep: must be from 10m to 366d: 9m59s; leave it out to keep what the limits count`}},
		{"keep without unit", `[credentials.youtube.operations]`, "[credentials.youtube]\nkeep = 7\n[credentials.youtube.operations]", []string{
			`16: credentials.youtube.keep: must be a duration in quotes, such as "90s", "30m", "24h" or "7d", not 7`}},
		{"units of a run", `timeout =`, "units_per_run = 400\ntimeout =", []string{`26: jobs.trending.units_per_run: is no key any more: give the job a share in place of it: limits.own = { units = 400, window = "1h", jobs = ["NAME"] }`}},
		{"lift", `only = ["search.list"]`, `lift = "4h"`, []string{`13: credentials.youtube.limits.search.lift: is no key any more: remove it: at that hour, edit units of the limit, then quotactl reload`}},
		{"enforce of another type", `only = ["search.list"]`, `enforce = "no"`, []string{`13: credentials.youtube.limits.search.enforce: must be true or false, not the string "no"`}},
		{"a cost that never fits", `"search.list" = 100`, `"search.list" = 4_001`, []string{`16: credentials.youtube.operations."search.list": costs 4,001 units, which can never fit limit "search": 4,000 units less a reserve of 0; write more units there, have it count other operations only (only = […]), or leave this one out`}},
		{"a cost that only the reserve fits", `"videos.list" = 1`, "\"videos.list\" = 1\nlist = 9_501", []string{
			`18: credentials.youtube.operations.list: costs 9,501 units, which can never fit limit "daily": ` +
				`10,000 units less a reserve of 500; write more units there, have it count other operations only (only = […]), ` +
				`or leave this one out`}},
		{"a cost below zero per limit", `"videos.list" = 1`, `"videos.list" = { daily = -1 }`, []string{`17: credentials.youtube.operations."videos.list": the cost in limit "daily" must be from 0 to 9007199254740991: -1`}},
		{"a cost of another type", `"videos.list" = 1`, `"videos.list" = "1"`, []string{`17: credentials.youtube.operations."videos.list": must be a number of units, or a table of them per limit: { daily = 100 }, not the string "1"`}},
		{"a cost per limit", `"search.list" = 100`, "\"search.list\" = { daily = 100, serch = 1 }", []string{`16: credentials.youtube.operations."search.list": unknown limit "serch": did you mean "search"?`}},
		{"a fraction per limit", `"search.list" = 100`, "\"search.list\" = { daily = 1.5 }", []string{
			`16: credentials.youtube.operations."search.list".daily: must be a whole number, not 1.5`,
		}},
		{"name of a limit", `[credentials.youtube.limits.daily]`, `[credentials.youtube.limits."per day"]`, []string{`5: credentials.youtube.limits."per day": a name is made of letters, digits and any of "_-", and begins with a letter or digit: "per day"`}},
		{"name of an operation", `"videos.list" = 1`, `"videos.list" = 1` + "\n" + `"vidéos" = 1`, []string{`18: credentials.youtube.operations."vidéos": a name is made of letters, digits and any of "_-./:", and begins with a letter or digit: "vidéos"`}},
		{"name of a credential", `[credentials.youtube.operations]`, `[credentials."you tube".limits.daily]` + "\n" + `units = 1` + "\n[credentials.youtube.operations]", []string{
			`15: credentials."you tube": a name is made of letters, digits and any of "_-", and begins with a letter or digit: "you tube"`,
			`15: credentials."you tube".operations: a credential needs at least one operation: one that is not listed is refused`,
		}},
		{"outage", `[credentials.youtube.operations]`, "[credentials.youtube.on_outage]\ndefault = \"opened\"\n\"video.list\" = \"open\"\n\"search.list\" = \"open\"\n[credentials.youtube.operations]", []string{
			`16: credentials.youtube.on_outage.default: must be one of "open", "closed", not "opened"`,
		}},
		{"outage cap", `[credentials.youtube.operations]`, "[credentials.youtube.on_outage]\nopen_units = 0\n[credentials.youtube.operations]", []string{`16: credentials.youtube.on_outage.open_units: must be from 1 to 9007199254740991: 0`}},
		{"credential of a job", `credential = "youtube"`, `credential = "youtub"`, []string{`20: jobs.trending.credential: credential "youtub" is not configured: did you mean "youtube"?`}},
		{"credential missing", `credential = "youtube"`, ``, []string{`19: jobs.trending.credential: is missing: add credential = "…", the one that its calls are charged to`}},
		{"regions twice and malformed", `regions = ["US", "GB", "DE"]`, "regions = [\n\"US\",\n\"GB\", \"US\",\n\" US\",\n1]", []string{
			`21: jobs.trending.regions: a region does not begin or end with a space: " US"`,
			`21: jobs.trending.regions: must hold strings in quotes, not 1`,
			`21: jobs.trending.regions: region "US" is listed twice: remove one`,
		}},
		{"no regions", `regions = ["US", "GB", "DE"]`, "regions = []", []string{`21: jobs.trending.regions: at least one region is needed`}},
		{"every and cron", `every = "30m"`, "every = \"30m\"\ncron = \"* * * * *\"", []string{`23: jobs.trending.cron: cannot be combined with every: remove one of the two`}},
		{"neither every nor cron", `every = "30m"`, "", []string{`19: jobs.trending.every: a job needs a schedule: every = "30m", cron = "*/30 * * * *", or schedule = "manual"`}},
		{"every too short", `every = "30m"`, `every = "1ms"`, []string{`22: jobs.trending.every: a period is at least 1s: 1ms`}},
		{"timezone of every", `every = "30m"`, "every = \"30m\"\ntimezone = \"UTC\"", []string{`23: jobs.trending.timezone: works only with cron: remove it`}},
		{"cron malformed", `every = "30m"`, `cron = "*/30 * * *"`, []string{`22: jobs.trending.cron: cannot use cron line "*/30 * * *": expected 5 to 6 fields, found 4: [*/30 * * *]; a line has minute (0-59), hour (0-23), day (1-31), month (1-12) and weekday (0-7)`}},
		{"cron that never happens", `every = "30m"`, `cron = "0 0 30 2 *"`, []string{`22: jobs.trending.cron: cannot use cron line "0 0 30 2 *": it never happens`}},
		{"cron of another type", `every = "30m"`, `cron = 30`, []string{`22: jobs.trending.cron: must be a cron line in quotes, such as "*/30 * * * *", not 30`}},
		{"timezone unknown", `every = "30m"`, "cron = \"0 * * * *\"\ntimezone = \"Berlin\"", []string{`23: jobs.trending.timezone: unknown time zone "Berlin": use a name of the IANA database, such as "Europe/Berlin"`}},
		{"stagger too long for cron", `every = "30m"`, `cron = "0,1 * * * * *"`, []string{`23: jobs.trending.stagger: 3 regions, 2s apart, do not fit into the 1s between two slots: use "even", or less than 500ms`}},
		{"parallel", `timeout = "2m"`, `parallel = -1`, []string{`26: jobs.trending.parallel: must be from 1 to 10000: -1`}},
		{"missed", `timeout = "2m"`, `missed = "all"`, []string{`26: jobs.trending.missed: must be one of "once", "skip", not "all"`}},
		{"passes", `[ledger]`, "[passes]\nparallel = 8\ndrain = \"soon\"\ncgroups = \"/tmp\"\ngrace = \"1s\"\n[ledger]", []string{
			`3: passes.parallel: is no key any more: remove it, and set parallel in each job`,
			`4: passes.drain: "soon" is not a duration: write a number with its unit, such as "90s", "30m", "24h" or "7d"`,
			`5: passes.cgroups: is no key any more: remove it: each pass has a cgroup of its own where systemd delegates one`,
			`6: passes.grace: unknown key: known are "drain", "user"`,
		}},
		{"an outage of some operations", `[credentials.youtube.operations]`, "[credentials.youtube.on_outage]\n\"video.list\" = \"open\"\n\"search.list\" = \"open\"\n[credentials.youtube.operations]", []string{
			`15: credentials.youtube.on_outage.open_units: is missing: add open_units = 50, the most that may be granted in any window`,
			`16: credentials.youtube.on_outage."video.list": unknown operation (give it a cost in [credentials.youtube.operations]): did you mean "videos.list"?`,
		}},
		{"a name of quotad's own", `timeout = "2m"`, `env = { QUOTAD_TOKEN = "x" }`, []string{`26: jobs.trending.env.QUOTAD_TOKEN: QUOTAD_TOKEN: names that begin with QUOTAD_ are set by quotad`}},
		{"where Redis is", `backend = "embedded"`, "backend = \"redis\"\n[ledger.redis]\naddrs = [\"localhost\", \"unix://redis.sock\"]", []string{
			`5: ledger.redis.addrs: "localhost" is not an address: write "host:port" or "unix:///path"`,
			`5: ledger.redis.addrs: "unix://redis.sock" is not an address: write "host:port" or "unix:///path"`,
		}},
		{"what events mean", `[ledger]`, "[on_event]\ncommand = []\nkinds = [\"lo\"]\ntimeout = \"2h\"\n[ledger]", []string{
			`3: on_event.command: must name a program, such as ["/usr/local/bin/notify"]; to run none, leave the key out`,
			`4: on_event.kinds: there is no event "lo": did you mean "low"?`,
			`5: on_event.timeout: must be at most 1h0m0s: 2h0m0s`,
		}},
		{"what is misspelt comes first", "units = 10_000\nreserve = 500", "unit = 10_000\nreserve = -1", []string{`6: credentials.youtube.limits.daily.unit: unknown key: did you mean "units"?`}},
		{"passes of nobody", `[ledger]`, "[passes]\nuser = \"no-such-user\"\n[ledger]", []string{
			`3: passes.user: no user "no-such-user" on this host: create it (useradd --system no-such-user) or name another`,
		}},
		{"stagger too long", `stagger = "2s"`, `stagger = "15m"`, []string{`23: jobs.trending.stagger: 3 regions, 15m0s apart, do not fit into the 30m0s between two slots: use "even", or less than 15m0s`}},
		{"after no job", `stagger = "2s"`, `after = "fetch"`, []string{`23: jobs.trending.after: job "fetch" is not configured`}},
		{"after itself", `stagger = "2s"`, `after = "trending"`, []string{
			`23: jobs.trending.after: no job of a circle would ever run: trending after trending`,
		}},
		{"stagger malformed", `stagger = "2s"`, `stagger = "evenly"`, []string{`23: jobs.trending.stagger: "evenly" is not a duration: write a number with its unit, such as "90s", "30m", "24h" or "7d"; or write "even"`}},
		{"stagger negative", `stagger = "2s"`, `stagger = "-2s"`, []string{`23: jobs.trending.stagger: "-2s" is below zero; or write "even"`}},
		{"expects unknown", `expects = { "videos.list" = 4 }`, `expects = { "video.list" = 4, "serach" = 1 }`, []string{
			`24: jobs.trending.expects."video.list": operation "video.list" is not listed for credential "youtube": did you mean "videos.list"?`,
			`24: jobs.trending.expects.serach: operation "serach" is not listed for credential "youtube": list it under operations`,
		}},
		{"expects zero", `expects = { "videos.list" = 4 }`, `expects = { "videos.list" = 0 }`, []string{`24: jobs.trending.expects."videos.list": must be a whole number from 1 to 9007199254740991: 0`}},
		{"expects never fit together", `expects = { "videos.list" = 4 }`, `expects = { "videos.list" = 9_001, "search.list" = 5 }`, []string{`24: jobs.trending.expects: a pass expects 9,501 units of limit "daily", which never has more than 9,500 (units less reserve)`}},
		{"expects never fit with the reserve", `expects = { "videos.list" = 4 }`, "use_reserve = true\nexpects = { \"videos.list\" = 10_001 }", []string{`25: jobs.trending.expects: a pass expects 10,001 units of limit "daily", which never has more than 10,000`}},
		{"a delay of no retry", `expects = { "videos.list" = 4 }`, `retry_after = "5m"`, []string{`24: jobs.trending.retry_after: needs retry, which says how often: retry = 1`}},
		{"the reserve as text", `expects = { "videos.list" = 4 }`, `use_reserve = "yes"`, []string{`24: jobs.trending.use_reserve: must be true or false, not the string "yes"`}},
		{"expects of another type", `expects = { "videos.list" = 4 }`, `expects = ["videos.list"]`, []string{`24: jobs.trending.expects: must be a table, [jobs.trending.expects], not an array`}},
		{"no command", `command = ["fetch", "trending"]`, `command = []`, []string{`25: jobs.trending.command: a job needs a command: the program and its arguments, ["ytfetch", "trending"]`}},
		{"command as one string", `command = ["fetch", "trending"]`, `command = "fetch trending"`, []string{`25: jobs.trending.command: must be an array of strings, ["fetch", "trending"], not the string "fetch trending"`}},
		{"command not found", `command = ["fetch", "trending"]`, `command = ["./fletch"]`, []string{`25: jobs.trending.command: command "./fletch" not found: there is no fletch`}},
		{"command not executable", `command = ["fetch", "trending"]`, `command = ["./config.toml"]`, []string{`25: jobs.trending.command: cannot use command "./config.toml": config.toml is not for user ` + (*process.User)(nil).String() + ` to execute: chmod 755 config.toml`}},
		{"timeout zero", `timeout = "2m"`, `timeout = "0s"`, []string{`26: jobs.trending.timeout: must be longer than zero`}},
		{"timeout too short", `timeout = "2m"`, `timeout = "10ms"`, []string{`26: jobs.trending.timeout: must be at least 1s: 10ms`}},
		{"timeout without unit", `timeout = "2m"`, `timeout = "120"`, []string{`26: jobs.trending.timeout: "120" is not a duration: write a number with its unit, such as "90s", "30m", "24h" or "7d"`}},
		{"flag", `timeout = "2m"`, `run_at_start = "yes"`, []string{`26: jobs.trending.run_at_start: must be true or false, not the string "yes"`}},
		{"env", `timeout = "2m"`, `env = { QUOTAD_TOKEN = "x", LEVEL = 1 }`, []string{
			`26: jobs.trending.env.LEVEL: must be a string in quotes, not 1`,
		}},
		{"env_file missing", `timeout = "2m"`, `env_file = "/no/such/file.env"`, []string{`26: jobs.trending.env_file: cannot be read: open /no/such/file.env: no such file or directory`}},
		{"backend", `backend = "embedded"`, `backend = "etcd"`, []string{`3: ledger.backend: must be one of "embedded", "redis", not "etcd"`}},
		{"redis", `backend = "embedded"`, "redis.addrs = [\"localhost\",\n\"unix://redis.sock\"]\nredis.key_prefix = \"{\"\nredis.password_file = \"/no/such/password\"\nbackend = \"redis\"", []string{
			`6: ledger.redis.password_file: cannot be read: open /no/such/password: no such file or directory`,
		}},
		{"redis on a socket and elsewhere", `backend = "embedded"`, "backend = \"redis\"\n[ledger.redis]\naddrs = [\"a:1\",\n\"unix:///s\"]\nkey_prefix = \"{q}\"", []string{
			`5: ledger.redis.addrs: "unix:///s" leads to one server: remove the other addresses and master_name`,
			`7: ledger.redis.key_prefix: must hold no braces, they mark what a Redis Cluster hashes: "{q}"`,
		}},
		{"log level", `[ledger]`, "[log]\nlevel = \"loud\"\n[ledger]", []string{`3: log.level: must be one of "debug", "info", "warn", "error", not "loud"`}},
		{"admin group", `[ledger]`, "[access]\nadmin_group = \"no-such-group\"\n[ledger]", []string{`3: access.admin_group: no group "no-such-group" on this host: create it (groupadd --system no-such-group) or name another`}},
		{"connections", `[ledger]`, "[access]\nconnections = 10\nconnections_per_user = 11\n[ledger]", []string{
			`3: access.connections: is no key any more: remove it: quotad answers 1,024 connections at once`,
			`4: access.connections_per_user: is no key any more: remove it: one user has at most 256 of the 1,024 connections`,
		}},
		{"metrics for everybody", `[ledger]`, "[metrics]\nlisten = \"0.0.0.0:9464\"\n[ledger]", []string{`3: metrics.listen: "0.0.0.0:9464" can be reached from other hosts, and callers there need no password: write "127.0.0.1:9464" or "[::1]:9464"`}},
		{"metrics on every address", `[ledger]`, "[metrics]\nlisten = \":9464\"\n[ledger]", []string{`3: metrics.listen: ":9464" is not an address and a port in numbers: write "127.0.0.1:9464" or "[::1]:9464"`}},
		{"metrics by name", `[ledger]`, "[metrics]\nlisten = \"localhost:9464\"\n[ledger]", []string{`3: metrics.listen: "localhost:9464" is not an address and a port in numbers: write "127.0.0.1:9464" or "[::1]:9464"`}},
		{"metrics nowhere", `[ledger]`, "[metrics]\nlisten = \"\"\nport = 1\n[ledger]", []string{
			`3: metrics.listen: "" is not an address and a port in numbers: write "127.0.0.1:9464" or "[::1]:9464"`,
			`4: metrics.port: unknown key: known are "listen"`,
		}},
		{"events", `[ledger]`, "[on_event]\ncommand = \"fetch\"\njob_failing = [\"fetch\"]\nnear_limit = []\n[ledger]", []string{
			`3: on_event.command: must be an array of strings, ["fetch"], not the string "fetch"`,
			`4: on_event.job_failing: is no key any more: write command once: it runs for the beginning and the end of each trouble`,
			`5: on_event.near_limit: is no key any more: write warn_below = 500 in the limit, and "low" in kinds`,
		}},
		{"no such program for events", `[ledger]`, "[on_event]\ncommand = [\"./no-such\"]\n[ledger]", []string{
			`3: on_event.command: command "./no-such" not found: there is no no-such`,
		}},
		{"few units of more than there are", "reserve = 500", "reserve = 500\nwarn_below = 9_501", []string{
			`8: credentials.youtube.limits.daily.warn_below: must be from 1 to 9500, which jobs may spend: 9501`,
		}},
		{"socket too long", `[ledger]`, "socket = \"/" + strings.Repeat("s", 107) + "\"\n[ledger]", []string{`2: socket: "/` + strings.Repeat("s", 107) + `" has 108 bytes, the path of a socket at most 107: name a shorter one`}},
		{"state_dir empty", `[ledger]`, "state_dir = \"\"\n[ledger]", []string{`2: state_dir: must not be empty`}},
		{"table of another type", `[ledger]`, "log = \"debug\"\n[ledger]", []string{`2: log: must be a table, [log], not the string "debug"`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got, want := said(t, t.TempDir(), edited(t, good, test.old, test.new)), strings.Join(test.want, "\n"); got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// Nothing that stands in a file makes Load panic, and every error has its line.
func FuzzLoad(f *testing.F) {
	f.Add(good)
	f.Add("[credentials]\nyoutube = 1\n[jobs.a.b]\n[ledger.redis.tls]\nca_file = 'x'")
	f.Add("[[jobs]]\n[[credentials]]\nname = 'x'\n[credentials.limits]\n[[log]]")
	f.Fuzz(func(t *testing.T, text string) {
		_, err := load(t, t.TempDir(), text)
		var wrong Errors
		if err != nil && !errors.As(err, &wrong) {
			t.Fatalf("got the error %v, want errors with their lines", err)
		}
		for _, one := range wrong {
			if one.Line < 1 || one.Line > 1+strings.Count(text, "\n") || one.Message == "" {
				t.Errorf("error %+v in %q", one, text)
			}
		}
	})
}
