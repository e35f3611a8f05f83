package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// proxied, hungry and distant are files of which one thing is changed.
const (
	proxied = `[proxy]
listen = "127.0.0.1:9465"
[credentials.c]
limits.daily.units = 100
operations = { list = 1, search = 10 }
[credentials.c.proxy]
upstream = "https://api.example.com/base/"
key_file = "a.key"
[credentials.c.proxy.routes]
"GET /search" = "search"
"GET /*" = "list"
`
	hungry = "\ncredentials.youtube.limits.daily.units = 100\ncredentials.youtube.operations.list = 1\n[jobs.one]\ncredential = \"youtube\"\n" +
		"every = \"1h\"\nexpects = { list = 60 }\ncommand = [\"fetch\"]\n"
	distant = `[credentials.c]
limits.daily.units = 100
limits.few = { units = 10, jobs = ["shop", "@shop"] }
operations = { list = 1, search = 10 }
[credentials.d]
limits.daily.units = 100
operations.get = 1
[clients.public]
units = 60
window = "1m"
[jobs.shop]
credential = "c"
regions = ["US"]
schedule = "manual"
command = ["fetch"]
[remote]
listen = ":9466"
cert_file = "c.pem"
key_file = "c.key"
[remote.callers.shop]
token_file = "shop.token"
credentials = ["c"]
operations = ["list"]
subjects = ["public"]
[remote.callers.blog]
token_file = "blog.token"
credentials = ["c", "d"]
`
)

// A file as people write it by mistake, or to see what happens: another one in which one thing takes the place of another,
// or a whole text; and each error, or each warning of a file that is accepted, behind "config.toml:".
type odd struct{ name, file, old, new, want string }

var oddFiles = []odd{
	{"an empty file", "", "", "# todo\n", "1: credentials: no credential is configured: add [credentials.NAME.limits.NAME] and [credentials.NAME.operations]"},
	{"a key twice", good, "reserve = 500", "reserve = 500\nreserve = 600", "8: credentials.youtube.limits.daily.reserve: not TOML: Key 'credentials.youtube.limits.daily.reserve' has already been defined on line 7: remove one of the two"},
	{"an unclosed array", good, `regions = ["US", "GB", "DE"]`, `regions = ["US", "GB", "DE"`, "22: jobs.trending.regions: not TOML: expected a comma (',') or array terminator (']'), but got 'e'"},
	{"a quote from a word processor", good, `backend = "embedded"`, "backend = “embedded”", `3: ledger.backend: not TOML: expected value but found '“' instead; a string is in plain quotes, "…"`},
	{"INI with semicolons", good, `backend = "embedded"`, `backend = "embedded" ; a file`, "3: ledger: not TOML: expected a top-level item to end with a newline, comment, or EOF, but got ';' instead; a comment begins with #"},
	{"a duration without quotes", good, `every = "30m"`, "every = 30m", `22: jobs.trending: not TOML: expected a top-level item to end with a newline, comment, or EOF, but got 'm' instead; a duration is in quotes, "90s"`},
	{"a hyphen for an underscore", good, `timeout = "2m"`, `max-wait = "5s"`, `26: jobs.trending.max-wait: unknown key: did you mean "max_wait"?`},
	{"plural table", good, "[credentials.youtube.operations]", "[credentials.youtube.operation]", `15: credentials.youtube.operation: unknown key: did you mean "operations"?`},
	{"limit without its name", good, "[credentials.youtube.limits.daily]", "[credentials.youtube.limits]", "6: credentials.youtube.limits.units: is in no table of its own: give that a name, such as [credentials.youtube.limits.daily]"},
	{"job without its name", good, "[jobs.trending]", "[jobs]", "20: jobs.credential: is in no table of its own: give that a name, such as [jobs.trending]"},
	{"operation unquoted", good, `"videos.list" = 1`, "videos.list = 1", `17: credentials.youtube.operations.videos: must not be a table: an operation with a dot in its name needs quotes, "videos.list"`},
	{"outage unquoted", good, "[credentials.youtube.operations]", "[credentials.youtube.on_outage]\nvideos.list = \"open\"\nopen_units = 1\n[credentials.youtube.operations]", `16: credentials.youtube.on_outage.videos: must not be a table: an operation with a dot in its name needs quotes, "videos.list"`},
	{"a manual job with a cron line", good, "every = \"30m\"\nstagger = \"2s\"", "schedule = \"manual\"\ncron = \"0 9 * * *\"\ntimezone = \"UTC\"", "23: jobs.trending.cron: has no effect with schedule = \"manual\": remove one of the two\n24: jobs.trending.timezone: has no effect with schedule = \"manual\": remove one of the two"},
	{"a manual job at the start", good, "every = \"30m\"\nstagger = \"2s\"", "schedule = \"manual\"\nrun_at_start = true", "23: jobs.trending.run_at_start: only a person begins a run of a manual job: remove it"},
	{"a schedule in words", good, "every = \"30m\"\nstagger = \"2s\"", `schedule = "every 30m"`, `22: jobs.trending.schedule: must be "manual", not "every 30m": write a period as every, and a cron line as cron`},
	{"a limit misspelt in a cost", good, `"search.list" = 100`, `"search.list" = { dayly = 100 }`, `16: credentials.youtube.operations."search.list": unknown limit "dayly": did you mean "daily"?`},
	{"a cost of nothing in one limit", good, `"search.list" = 100`, `"search.list" = { daily = 100, search = 0 }`, "10: credentials.youtube.limits.search: no operation costs anything in it, so it would deny nothing: name it in the operations that it should count"},
	{"no operations", good, "\"search.list\" = 100\n\"videos.list\" = 1\n", "", "15: credentials.youtube.operations: a credential needs at least one operation: one that is not listed is refused"},
	{"an empty cost table", good, `"videos.list" = 1`, `"videos.list" = {}`, `17: credentials.youtube.operations."videos.list": no limit counts this operation, so it would be free: name it in a limit's only, or give it a cost in one; a cost of 0 is free`},
	{"units in scientific notation", good, "units = 10_000", "units = 1e4", "6: credentials.youtube.limits.daily.units: must be a whole number, not the fraction 10000.0: write 10000"},
	{"units below zero", good, "units = 10_000", "units = -5", "6: credentials.youtube.limits.daily.units: must be from 1 to 9007199254740991: -5"},
	{"more units than can be counted", good, "units = 10_000", "units = 9007199254740993", "6: credentials.youtube.limits.daily.units: must be from 1 to 9007199254740991: 9007199254740993"},
	{"a window by a period", good, "units = 4_000\nwindow = \"7d\"", "units = 4_000\nwindow = \"day\"", `12: credentials.youtube.limits.search.window: "day" is not a duration: write "24h" for any day, or { calendar = "day", timezone = "America/Los_Angeles" }`},
	{"an empty calendar window", good, "units = 4_000\nwindow = \"7d\"", "units = 4_000\nwindow = {}", "12: credentials.youtube.limits.search.window.calendar: is missing: add calendar = \"day\"\n12: credentials.youtube.limits.search.window.timezone: is missing: add timezone = \"America/Los_Angeles\", where the period begins"},
	{"the host's own zone", good, "units = 4_000\nwindow = \"7d\"", "units = 4_000\nwindow = { calendar = \"day\", timezone = \"Local\" }", `12: credentials.youtube.limits.search.window.timezone: unknown time zone "Local": use a name of the IANA database, such as "Europe/Berlin"`},
	{"a zone as an abbreviation", good, "units = 4_000\nwindow = \"7d\"", "units = 4_000\nwindow = { calendar = \"day\", timezone = \"PST\" }", `12: credentials.youtube.limits.search.window.timezone: unknown time zone "PST": did you mean "America/Los_Angeles"?`},
	{"a beginning at the year one", good, "units = 4_000\nwindow = \"7d\"", "units = 4_000\nwindow = { every = \"24h\", from = \"0001-01-01T00:00:00Z\" }", "12: credentials.youtube.limits.search.window.from: must lie in 1970 or later: 0001-01-01T00:00:00Z"},
	{"cron with a zone in it", good, `every = "30m"`, `cron = "TZ=UTC 0 * * * *"`, `22: jobs.trending.cron: cannot use cron line "TZ=UTC 0 * * * *": leave the time zone out of the line, and set timezone`},
	{"cron beyond its range", good, `every = "30m"`, `cron = "61 * * * *"`, `22: jobs.trending.cron: cannot use cron line "61 * * * *": end of range (61) above maximum (59): 61; a line has minute (0-59), hour (0-23), day (1-31), month (1-12) and weekday (0-7)`},
	{"Sundays as crond has them", good, `every = "30m"`, `cron = "0 0 * * 5-7"`, ""},
	{"cron with a long step", good, `every = "30m"`, `cron = "*/90 * * * *"`, `22: jobs.trending.cron: a step of 90 never comes within a field that ends at 59: for a period, write every = "90m"`},
	{"an operation by its beginning", good, `expects = { "videos.list" = 4 }`, `expects = { "search" = 1 }`, `24: jobs.trending.expects.search: operation "search" is not listed for credential "youtube": did you mean "search.list"?`},
	{"a pipeline in one string", good, `command = ["fetch", "trending"]`, `command = "fetch trending | sort"`, `25: jobs.trending.command: must be an array of strings, ["sh", "-c", "fetch trending | sort"], not the string "fetch trending | sort"`},
	{"a pipeline in one word", good, `command = ["fetch", "trending"]`, `command = ["fetch trending | sort"]`, `25: jobs.trending.command: command "fetch trending | sort" not found: it is neither in the directory of quotad nor in PATH: DIR, /bin; if that is a whole line, write ["sh", "-c", "fetch trending | sort"]`},
	{"a variable before the command", good, `command = ["fetch", "trending"]`, `command = ["KEY=1", "fetch"]`, `25: jobs.trending.command: command "KEY=1" not found: it is neither in the directory of quotad nor in PATH: DIR, /bin; a variable is set in env = { KEY = "…" }`},
	{"a home directory", good, `command = ["fetch", "trending"]`, `command = ["~/fetch"]`, `25: jobs.trending.command: command "~/fetch" not found: there is no ~/fetch; ~ is not known here: write the whole path`},
	{"a pipe as env_file", good, `timeout = "2m"`, `env_file = "pipe"`, "26: jobs.trending.env_file: cannot be read: pipe is no regular file"},
	{"an env_file that everybody may write", good, `timeout = "2m"`, `env_file = "open.env"`, "26: warning: jobs.trending.env_file: everybody on this host may write open.env: chmod o-w open.env"},
	{"an env_file that everybody may read", good, `timeout = "2m"`, `env_file = "read.env"`, "26: jobs.trending.env_file: everybody on this host may read read.env, and with it the job's secrets: chmod o-r read.env"},
	{"a password that everybody may read", good, `backend = "embedded"`, "backend = \"redis\"\nredis.password_file = \"read.env\"", "4: ledger.redis.password_file: everybody on this host may read read.env, and with it the password: chmod o-r read.env"},
	{"a directory that is not there", good, `timeout = "2m"`, `dir = "dtaa"`, "26: jobs.trending.dir: there is no directory dtaa: create it, or leave dir out for data/trending in state_dir"},
	{"env with a name that is none", good, `timeout = "2m"`, `env = { "MY LEVEL" = "1" }`, `26: jobs.trending.env."MY LEVEL": is not the name of a variable: use letters, digits and '_'`},
	{"redis without its backend", good, `backend = "embedded"`, `redis.addrs = ["127.0.0.1:6379"]`, `3: ledger.redis: is not used by the embedded ledger: set backend = "redis" in [ledger], or remove this table`},
	{"outage of the embedded ledger", good, "[credentials.youtube.operations]", "[credentials.youtube.on_outage]\ndefault = \"open\"\nopen_units = 1\n[credentials.youtube.operations]", `15: warning: credentials.youtube.on_outage: does nothing with the embedded ledger, which is always there: remove it, or set backend = "redis" in [ledger]`},
	{"a password in the file", good, `backend = "embedded"`, "backend = \"redis\"\nredis.password = \"hunter2\"", `4: ledger.redis.password: unknown key: known are "addrs", "key_prefix", "master_name", "password_file", "tls", "username"`},
	{"a URL as an address", good, `backend = "embedded"`, "backend = \"redis\"\nredis.addrs = [\"redis://127.0.0.1:6379\"]", `4: ledger.redis.addrs: "redis://127.0.0.1:6379" is not an address: write "host:port" or "unix:///path"`},
	{"an authority without a certificate", good, `backend = "embedded"`,
		"backend = \"redis\"\nredis.tls.ca_file = \"a.key\"", `4: ledger.redis.tls.ca_file: "a.key" holds no certificate ` +
			`in PEM form`},
	{"no addrs", good, `backend = "embedded"`, "backend = \"redis\"\nredis.addrs = []", `4: ledger.redis.addrs: must hold at least one "host:port" or "unix:///path"`},
	{"no such key", good, "reserve = 500", "reserv = 500", `7: credentials.youtube.limits.daily.reserv: unknown key: did you mean "reserve"?`},
	{"a key like no other", good, "timeout =", "quantity =", `26: jobs.trending.quantity: unknown key: known are "after", "command", "credential", "cron", "dir", "env", "env_file", "every", "expects", "host", "max_wait", "missed", "regions", "retry", "retry_after", "run_at_start", "schedule", "stagger", "timeout", "timezone", "use_reserve"`},
	{"several at once", good, "units = 10_000\nreserve = 500", "units = \"10k\"\nreserve = 1.5\nwindows = 1", "6: credentials.youtube.limits.daily.units: must be a whole number, not the string \"10k\"\n7: credentials.youtube.limits.daily.reserve: must be a whole number, not 1.5\n8: credentials.youtube.limits.daily.windows: unknown key: did you mean \"window\"?"},
	{"no time between two slots", good, `every = "30m"`, `every = "0s"`,
		"22: jobs.trending.every: must be longer than zero"},
	{"no zone", good, `window = "24h"`, `window = { calendar = "day", timezone = "" }`,
		`8: credentials.youtube.limits.daily.window.timezone: unknown time zone "": use a name of the IANA database, ` +
			`such as "Europe/Berlin"`},
	{"a beginning without a zone", good, `window = "24h"`, `window = { every = "24h", from = 2026-01-01T11:30:15 }`,
		`8: credentials.youtube.limits.daily.window.from: must be a time with its zone, such as "2026-01-01T11:30:15Z"`},
	{"few units, of which nothing is run", good, "[ledger]\nbackend = " +
		"\"embedded\"\n\n[credentials.youtube.limits.daily]", "[on_event]\ncommand = " +
		"[\"fetch\"]\n[credentials.youtube.limits.daily]\nwarn_below = 9_500",
		`5: warning: credentials.youtube.limits.daily.warn_below: is only logged: add "low" to kinds in [on_event]`},
	{"a long socket", good, "[ledger]", "socket = \"/" + strings.Repeat("s", 107) + "\"\n[ledger]",
		`2: socket: "/` + strings.Repeat("s", 107) + `" has 108 bytes, the path of a socket at most 107: name a shorter one`},
	{"an address by its name", good, "[ledger]", "[metrics]\nlisten = \"localhost:9464\"\n[ledger]",
		`3: metrics.listen: "localhost:9464" is not an address and a port in numbers: write "127.0.0.1:9464" or ` +
			`"[::1]:9464"`},
	{"units missing", good, "units = 10_000\n", "", "5: credentials.youtube.limits.daily.units: is missing: add units = 10_000"},
	{"reserve", good, "reserve = 500", "reserve = 10_000", "7: credentials.youtube.limits.daily.reserve: must be at least 0 and less than units (10000): 10000"},
	{"window without unit", good, `window = "24h"`, "window = 24", `8: credentials.youtube.limits.daily.window: must be a duration in quotes, such as "90s", "30m", "24h" or "7d", not 24`},
	{"a period without its beginning", good, `window = "24h"`, `window = { every = "24h" }`, `8: credentials.youtube.limits.daily.window.from: is missing: add from = "2026-01-01T11:30:15Z", when a period began`},
	{"a period of both kinds", good, `window = "24h"`, `window = { every = "24h", from = "2026-01-01T11:30:15Z", calendar = "day" }`, "8: credentials.youtube.limits.daily.window.calendar: cannot be combined with every and from: remove it, or them"},
	{"calendar window with faults", good, `window = "24h"`, "window = { calendar = \"week\",\n timezone = \"America/Los_Angels\", offset = 1 }", "8: credentials.youtube.limits.daily.window.calendar: must be one of \"hour\", \"day\", \"month\", not \"week\"\n9: credentials.youtube.limits.daily.window.offset: unknown key: known are \"calendar\", \"every\", \"from\", \"timezone\"\n9: credentials.youtube.limits.daily.window.timezone: unknown time zone \"America/Los_Angels\": use a name of the IANA database, such as \"Europe/Berlin\""},
	{"jobs and except_jobs", good, `only = ["search.list"]`, "jobs = [\"trending\"]\nexcept_jobs = [\"trending\"]", "14: credentials.youtube.limits.search.except_jobs: cannot be combined with jobs: remove one of them"},
	{"jobs unknown", good, `only = ["search.list"]`, `jobs = ["trendign"]`, `13: credentials.youtube.limits.search.jobs: there is no job "trendign": did you mean "trending"?`},
	{"no jobs", good, `only = ["search.list"]`, "jobs = []", "13: credentials.youtube.limits.search.jobs: must name at least one job: leave it out for a limit that counts everybody's calls"},
	{"a job of another credential", good, "[credentials.youtube.operations]", "[credentials.b]\nlimits.pool.units = 9\nlimits.share = { units = 1, jobs = [\"trending\"] }\noperations.list = 1\n[credentials.youtube.operations]", `17: credentials.b.limits.share.jobs: job "trending" spends from credential "youtube", not from this one`},
	{"free for everybody else", good, "window = \"24h\"\n", "window = \"24h\"\njobs = [\"trending\"]\n", `18: credentials.youtube.operations."videos.list": only limits with jobs of their own count this operation, so it would be free for everybody else: let a limit without jobs count it`},
	{"free for a job", good, "window = \"24h\"\n", "window = \"24h\"\nexcept_jobs = [\"trending\"]\n", `18: credentials.youtube.operations."videos.list": no limit counts this operation for job "trending", so it would be free: let a limit without except_jobs count it`},
	{"a share less than expected", good, `only = ["search.list"]`, "only = [\"videos.list\"]\njobs = [\"trending\"]\nreserve = 3_997", `26: jobs.trending.expects: a pass expects 4 units of limit "search", which never has more than 3 (units less reserve)`},
	{"keep too long", good, "[credentials.youtube.operations]", "[credentials.youtube]\nkeep = \"400d\"\n[credentials.youtube.operations]", "16: credentials.youtube.keep: must be from 10m to 366d: 400d; leave it out to keep what the limits count"},
	{"keys that have ended", good, "[ledger]", "[access]\nconnections = 9\nconnections_per_user = 9\n[passes]\ncgroups = \"auto\"\nparallel = 4\n[ledger]\nsync = \"always\"\nredis.db = 1\nredis.tls.server_name = \"r\"", `3: access.connections: is no key any more: remove it: quotad answers 1,024 connections at once
4: access.connections_per_user: is no key any more: remove it: one user has at most 256 of the 1,024 connections
6: passes.cgroups: is no key any more: remove it: each pass has a cgroup of its own where systemd delegates one
7: passes.parallel: is no key any more: remove it: a run serves one region after the other
9: ledger.sync: is no key any more: remove it: each grant is on the disk before it is answered
10: ledger.redis.db: is no key any more: remove it: key_prefix keeps what others have in the same Redis apart
11: ledger.redis.tls.server_name: is no key any more: write the name in the certificate into addrs`},
	{"units of a run", good, "timeout =", "parallel = 2\nunits_per_run = 400\ntimeout =", `26: jobs.trending.parallel: is no key any more: remove it: a run serves one region after the other; split the regions over two jobs
27: jobs.trending.units_per_run: is no key any more: give the job a share in place of it: limits.own = { units = 400, window = "1h", jobs = ["NAME"] }`},
	{"enforce of another type", good, `only = ["search.list"]`, `enforce = "no"`, `13: credentials.youtube.limits.search.enforce: must be true or false, not the string "no"`},
	{"a cost that never fits", good, `"search.list" = 100`, `"search.list" = 4_001`, `16: credentials.youtube.operations."search.list": costs 4,001 units, which can never fit limit "search": 4,000 units less a reserve of 0; write more units there, have it count other operations only (only = […]), or leave this one out`},
	{"a cost that only the reserve fits", good, `"videos.list" = 1`, "\"videos.list\" = 1\nlist = 9_501", `18: credentials.youtube.operations.list: costs 9,501 units, which can never fit limit "daily": 10,000 units less a reserve of 500; write more units there, have it count other operations only (only = […]), or leave this one out`},
	{"name of a limit", good, "[credentials.youtube.limits.daily]", `[credentials.youtube.limits."per day"]`, `5: credentials.youtube.limits."per day": a name is made of letters, digits and any of "_-", and begins with a letter or digit: "per day"`},
	{"name of a credential", good, "[credentials.youtube.operations]", "[credentials.\"you tube\".limits.daily]\nunits = 1\n[credentials.youtube.operations]", "15: credentials.\"you tube\": a name is made of letters, digits and any of \"_-\", and begins with a letter or digit: \"you tube\"\n15: credentials.\"you tube\".operations: a credential needs at least one operation: one that is not listed is refused"},
	{"outage", good, "[credentials.youtube.operations]", "[credentials.youtube.on_outage]\ndefault = \"opened\"\n\"video.list\" = \"open\"\n\"search.list\" = \"open\"\n[credentials.youtube.operations]", `16: credentials.youtube.on_outage.default: must be one of "open", "closed", not "opened"`},
	{"outage cap", good, "[credentials.youtube.operations]", "[credentials.youtube.on_outage]\nopen_units = 0\n[credentials.youtube.operations]", "16: credentials.youtube.on_outage.open_units: must be from 1 to 9007199254740991: 0"},
	{"credential of a job", good, `credential = "youtube"`, `credential = "youtub"`, `20: jobs.trending.credential: credential "youtub" is not configured: did you mean "youtube"?`},
	{"regions twice and malformed", good, `regions = ["US", "GB", "DE"]`, "regions = [\n\"US\",\n\"GB\", \"US\",\n\" US\",\n1]", "21: jobs.trending.regions: a region does not begin or end with a space: \" US\"\n21: jobs.trending.regions: must hold strings in quotes, not 1\n21: jobs.trending.regions: region \"US\" is listed twice: remove one"},
	{"every and cron", good, `every = "30m"`, "every = \"30m\"\ncron = \"* * * * *\"", "23: jobs.trending.cron: cannot be combined with every: remove one of the two"},
	{"neither every nor cron", good, `every = "30m"`, "", `19: jobs.trending.every: a job needs a schedule: every = "30m", cron = "*/30 * * * *", or schedule = "manual"`},
	{"timezone of every", good, `every = "30m"`, "every = \"30m\"\ntimezone = \"UTC\"", "23: jobs.trending.timezone: works only with cron: remove it"},
	{"cron that never happens", good, `every = "30m"`, `cron = "0 0 30 2 *"`, `22: jobs.trending.cron: cannot use cron line "0 0 30 2 *": it never happens`},
	{"an outage of some operations", good, "[credentials.youtube.operations]", "[credentials.youtube.on_outage]\n\"video.list\" = \"open\"\n\"search.list\" = \"open\"\n[credentials.youtube.operations]", "15: credentials.youtube.on_outage.open_units: is missing: add open_units = 50, the most that may be granted in any window\n16: credentials.youtube.on_outage.\"video.list\": unknown operation (give it a cost in [credentials.youtube.operations]): did you mean \"videos.list\"?"},
	{"a name of quotad's own", good, `timeout = "2m"`, `env = { QUOTAD_TOKEN = "x" }`, "26: jobs.trending.env.QUOTAD_TOKEN: QUOTAD_TOKEN: names that begin with QUOTAD_ are set by quotad"},
	{"where Redis is", good, `backend = "embedded"`, "backend = \"redis\"\n[ledger.redis]\naddrs = [\"localhost\", \"unix://redis.sock\"]", "5: ledger.redis.addrs: \"localhost\" is not an address: write \"host:port\" or \"unix:///path\"\n5: ledger.redis.addrs: \"unix://redis.sock\" is not an address: write \"host:port\" or \"unix:///path\""},
	{"what events mean", good, "[ledger]", "[on_event]\ncommand = []\nkinds = [\"lo\"]\n[ledger]", "3: on_event.command: must name a program, such as [\"/usr/local/bin/notify\"]; to run none, leave the key out\n4: on_event.kinds: there is no event \"lo\": did you mean \"low\"?"},
	{"what is misspelt comes first", good, "units = 10_000\nreserve = 500", "unit = 10_000\nreserve = -1", `6: credentials.youtube.limits.daily.unit: unknown key: did you mean "units"?`},
	{"passes of nobody", good, "[ledger]", "[passes]\nuser = \"no-such-user\"\n[ledger]", `3: passes.user: no user "no-such-user" on this host: create it (useradd --system no-such-user) or name another`},
	{"stagger too long", good, `stagger = "2s"`, `stagger = "15m"`, `23: jobs.trending.stagger: 3 regions, 15m0s apart, do not fit into the 30m0s between two slots: use "even", or less than 15m0s`},
	{"after itself", good, `stagger = "2s"`, `after = "trending"`, "23: jobs.trending.after: no job of a circle would ever run: trending after trending"},
	{"expects unknown", good, `expects = { "videos.list" = 4 }`, `expects = { "video.list" = 4, "serach" = 1 }`, "24: jobs.trending.expects.\"video.list\": operation \"video.list\" is not listed for credential \"youtube\": did you mean \"videos.list\"?\n24: jobs.trending.expects.serach: operation \"serach\" is not listed for credential \"youtube\": list it under operations"},
	{"a delay of no retry", good, `expects = { "videos.list" = 4 }`, `retry_after = "5m"`, "24: jobs.trending.retry_after: needs retry, which says how often: retry = 1"},
	{"backend", good, `backend = "embedded"`, `backend = "etcd"`, `3: ledger.backend: must be one of "embedded", "redis", not "etcd"`},
	{"redis on a socket and elsewhere", good, `backend = "embedded"`, "backend = \"redis\"\n[ledger.redis]\naddrs = [\"a:1\",\n\"unix:///s\"]\nkey_prefix = \"{q}\"", "5: ledger.redis.addrs: \"unix:///s\" leads to one server: remove the other addresses and master_name\n7: ledger.redis.key_prefix: must hold no braces, they mark what a Redis Cluster hashes: \"{q}\""},
	{"metrics for everybody", good, "[ledger]", "[metrics]\nlisten = \"0.0.0.0:9464\"\n[ledger]", `3: metrics.listen: "0.0.0.0:9464" can be reached from other hosts, and callers there need no password: write "127.0.0.1:9464" or "[::1]:9464"`},
	{"events", good, "[ledger]", "[on_event]\ncommand = \"fetch\"\njob_failing = [\"fetch\"]\nnear_limit = []\n[ledger]", "3: on_event.command: must be an array of strings, [\"fetch\"], not the string \"fetch\"\n4: on_event.job_failing: is no key any more: write command once: it runs for the beginning and the end of each trouble\n5: on_event.near_limit: is no key any more: write warn_below = 500 in the limit, and \"low\" in kinds"},
	{"few units of more than there are", good, "reserve = 500", "reserve = 500\nwarn_below = 9_501", "8: credentials.youtube.limits.daily.warn_below: must be from 1 to 9500, which jobs may spend: 9501"},
	{"table of another type", good, "[ledger]", "log = \"debug\"\n[ledger]", `2: log: must be a table, [log], not the string "debug"`},
	{"not loopback", proxied, `"127.0.0.1:9465"`, `"0.0.0.0:9465"`, `2: proxy.listen: "0.0.0.0:9465" can be reached from other hosts, and callers there need no password: write "127.0.0.1:9465" or "[::1]:9465"`},
	{"upstream in plain text", proxied, "https://api", "http://api", `7: credentials.c.proxy.upstream: "http://api.example.com/base/" would have the key travel in plain text: write https://api.example.com`},
	{"key in the address", proxied, "/base/", "/?key=Sesame", "7: credentials.c.proxy.upstream: holds more than a host and a path: write a key into key_file"},
	{"upstream missing", proxied, `upstream = "https://api.example.com/base/"`, "", `6: credentials.c.proxy.upstream: is missing: add upstream = "https://api.example.com", the address of the API`},
	{"a caller's key", proxied, `key_file = "a.key"`, `key = "caller"`, ""},
	{"a key in quotes", proxied, `"a.key"`, `"quoted.key"`, "8: credentials.c.proxy.key_file: quoted.key holds the key in quotes: leave them out"},
	{"a key with its name", proxied, `"a.key"`, `"named.key"`, "8: credentials.c.proxy.key_file: named.key holds NAME= before the key: leave it out"},
	{"key that others read", proxied, `"a.key"`, `"open.key"`, "8: credentials.c.proxy.key_file: everybody on this host may read open.key, and with it the key: chmod o-r open.key"},
	{"a key that a group may read", proxied, `"a.key"`, `"group.key"`, ""},
	{"a status that is none", proxied, `key_file = "a.key"`, "key_file = \"a.key\"\nfree = [304, 600, 99]",
		"9: credentials.c.proxy.free: must be a status from 100 to 599: 600\n9: credentials.c.proxy.free: must be a " +
			"status from 100 to 599: 99"},
	{"more than a key", proxied, `"a.key"`, `"two.key"`, "8: credentials.c.proxy.key_file: two.key must hold the key on a line by itself, and nothing else"},
	{"two keys", proxied, `key_file = "a.key"`, "key_file = \"a.key\"\nkey_command = [\"true\"]", "9: credentials.c.proxy.key_command: the key comes from key_file already: remove one of the two"},
	{"the key itself", proxied, `key_file = "a.key"`, `key = "Sesame-open-Sesame"`, `8: credentials.c.proxy.key: must be "caller": the key itself is in key_file, or key_command prints it`},
	{"a parameter", proxied, `key_file = "a.key"`, "key_file = \"a.key\"\nkey_parameter = \"api key\"", `9: credentials.c.proxy.key_parameter: "api key" is not the name of a parameter: write "api_key"`},
	{"a parameter and a header", proxied, `key_file = "a.key"`, "key_file = \"a.key\"\nkey_parameter = \"api_key\"\nkey_header = \"X-Key\"", "9: credentials.c.proxy.key_parameter: sends the key in the query, and key_header sends it in a header: remove one"},
	{"billing", proxied, `key_file = "a.key"`, "key_file = \"a.key\"\nbilling = \"not-304\"", "9: credentials.c.proxy.billing: is no key any more: write free = [304] where an answer with that status costs nothing, else remove it"},
	{"unknown operation", proxied, `= "search"`, `= "serch"`, `10: credentials.c.proxy.routes."GET /search": unknown operation "serch" (give it a cost in [credentials.c.operations]): did you mean "search"?`},
	{"no route", proxied, `"GET /*"`, `"GET *"`, `11: credentials.c.proxy.routes."GET *": is not a route: write a method, or *, and a path, such as "GET /youtube/v3/search"`},
	{"a query without a space", proxied, `"GET /search" = "search"`, `"GET /search?q" = "search"`, `10: credentials.c.proxy.routes."GET /search?q": has the segment "search?q": a path is not encoded, and parameters follow it after a space, such as "GET /works ?search"`},
	{"no routes", proxied, "[credentials.c.proxy.routes]\n\"GET /search\" = \"search\"\n\"GET /*\" = \"list\"\n", "", `6: credentials.c.proxy.routes: is missing: add routes = { "GET /youtube/v3/search" = "search.list" }, or name a preset`},
	{"no listen", distant, `listen = ":9466"`, "", `16: remote.listen: is missing: add listen = ":9466"`},
	{"half a certificate", distant, `key_file = "c.key"`, "", `16: remote.key_file: is missing: add key_file = "…", the key of cert_file`},
	{"plain text", distant, "cert_file = \"c.pem\"\nkey_file = \"c.key\"", "", `17: remote.listen: ":9466" can be reached from everywhere, and without TLS tokens would travel in plain text: add cert_file and key_file; or write an address of a private network or, where a proxy on this host has the certificate, "127.0.0.1:9466"`},
	{"a private address", distant, "\":9466\"\ncert_file = \"c.pem\"\nkey_file = \"c.key\"", `"10.0.0.1:9466"`, ""},
	{"certificate of another key", distant, `"c.pem"`, `"other.pem"`, "18: remote.cert_file: cannot be used with key_file: tls: private key does not match public key"},
	{"no certificate", distant, `"c.pem"`, `"none.pem"`, "18: remote.cert_file: cannot be read: open none.pem: no such file or directory"},
	{"key for everybody", distant, `"c.key"`, `"public.key"`, "19: remote.key_file: everybody on this host may read public.key, and with it the key of the certificate: chmod o-r public.key"},
	{"token for everybody", distant, `"shop.token"`, `"open.key"`,
		"21: remote.callers.shop.token_file: everybody on this host may read open.key, and with it a token: chmod o-r open.key"},
	{"empty token", distant, `"shop.token"`, `"empty.token"`, "21: remote.callers.shop.token_file: empty.token is empty: write a token into it, such as openssl rand -hex 32 prints"},
	{"three tokens", distant, `"shop.token"`, `"three.token"`, "21: remote.callers.shop.token_file: three.token holds " +
		"3 tokens: at most 2, the old one and the new one, each on a line by itself"},
	{"a caller of no credential", distant, `["c", "d"]`, "[]", "27: remote.callers.blog.credentials: must name at " +
		"least one credential, or be left out"},
	{"short token", distant, `"shop.token"`, `"short.token"`, "21: remote.callers.shop.token_file: the token on line 1 of short.token must have 32 to 512 plain characters: openssl rand -hex 32 prints one"},
	{"another's token", distant, `"blog.token"`, `"shop.token"`, "26: remote.callers.blog.token_file: holds a token of caller \"shop\" too: give each caller its own\n26: remote.callers.blog.token_file: holds a token of caller \"shop\" too: give each caller its own"},
	{"name", distant, "[remote.callers.blog]", `[remote.callers."my blog"]`, `25: remote.callers."my blog": a name is made of letters, digits and any of "_-", and begins with a letter or digit: "my blog"`},
	{"unknown credential", distant, `["c", "d"]`, `["c", "e"]`, `27: remote.callers.blog.credentials: there is no credential "e": did you mean "c"?`},
	{"unknown operation of a caller", distant, `["list"]`, `["lists"]`, `23: remote.callers.shop.operations: there is no operation "lists": did you mean "list"?`},
	{"unknown clients", distant, `["public"]`, `["private"]`, `24: remote.callers.shop.subjects: there is no table [clients.NAME] "private": known are "public"`},
	{"unknown caller of a share", distant, `"@shop"`, `"@shops"`, `3: credentials.c.limits.few.jobs: there is no [remote.callers.shops]: did you mean "shop"?`},
	{"caller of another credential", distant, "operations.get = 1", "operations.get = 1\nlimits.few = { units = 1, jobs = [\"@shop\"] }", `8: credentials.d.limits.few.jobs: caller "shop" may not spend from this credential: add "d" to its credentials`},
	{"no name", "", "", "[clients]\nunits = 60\nwindow = \"1m\"", "2: clients.units: is in no table of its own: give that a name, such as [clients.public]"},
	{"no name, limits", "", "", "[clients.limits.minute]\nunits = 60\nwindow = \"1m\"", "1: clients.limits: is in no table of clients: give them a name, such as [clients.public]"},
	{"no limit", "", "", "[clients.public]\nlimits = {}", "2: clients.public.limits: clients need at least one limit"},
	{"units beside limits", "", "", "[clients.public]\nunits = 60\nlimits.minute = { units = 60, window = \"1m\" }", "2: clients.public.units: cannot be combined with limits: move it into one of them, such as [clients.public.limits.minute]"},
	{"a window of a calendar", "", "", "[clients.public]\nunits = 60\nwindow = { calendar = \"day\", timezone = \"UTC\" }", "3: clients.public.window: must be a trailing time of whole seconds, from 1s to 8784h0m0s: day UTC"},
	{"a cost", "", "", "[clients.public]\nunits = 60\nwindow = \"1m\"\noperations.search = 61", `4: clients.public.operations.search: costs 61 units, which can never fit limit "default": 60 units`},
	{"a name without quotes", "", "", "[clients.public]\nunits = 60\nwindow = \"1m\"\noperations.search.list = 10", `4: clients.public.operations.search: must not be a table: an operation with a dot in its name needs quotes, "search.list"`},
	{"one window twice", "", "", "[clients.public]\nlimits.minute = { units = 60, window = \"1m\" }\nlimits.second = { units = 1, window = \"60s\" }", `3: clients.public.limits.second.window: limit "minute" has the same: the smaller of the two is enough`},
	{"a name", "", "", "[clients.\"the public\"]\nunits = 60\nwindow = \"1m\"", `1: clients."the public": a name is made of letters, digits and any of "_-", and begins with a letter or digit: "the public"`},
	{"an unknown preset", "", "", "[credentials.c]\npreset = \"youtube-2026\"\n", `2: credentials.c.preset: unknown preset "youtube-2026": did you mean "youtube-2026-06"?`},
	{"a limit like one of the preset", "", "", "[credentials.c]\npreset = \"youtube-classic\"\nlimits.dialy.reserve = 500\n", `3: credentials.c.limits.dialy: preset youtube-classic has no limit of this name: did you mean "daily"?`},
	{"a reset that slides", "", "", "[credentials.c.limits.d]\nunits = 1\nupstream = { resets = \"24h\" }\n[credentials.c.operations]\nget = 1\n", `3: credentials.c.limits.d.upstream.resets: must be a period, such as { calendar = "day", timezone = "America/Los_Angeles" }: without one it is not known when the upstream resets`},
	{"a reset of unknown form", "", "", "[credentials.c]\npreset = \"youtube-classic\"\n[credentials.c.answers.headers]\nreset = \"x-reset\"\n", `3: credentials.c.answers.headers.reset_is: is missing: add reset_is = "epoch", or "seconds", "duration", "rfc3339": the same name means different things`},
	{"a schedule that does not fit", "", "", hungry, `2: warning: credentials.youtube.limits.daily: ` +
		`youtube daily: the schedule does not fit: 1,440 units asked in any 24h, 1,340 more than the 100 for jobs: one 1,440 (24 runs): plan fewer runs or regions, or some will stop early`},
	{"a log that is kept no longer than a limit counts", "", "", "credentials.youtube.keep = \"1d\"" + strings.Replace(hungry, "1h", "1d", 1),
		`1: warning: credentials.youtube.keep: does nothing: a limit counts what was granted for 24h, and the log keeps that: remove it, or write more`},
	{"a log that is kept for longer", "", "", "credentials.youtube.keep = \"2d\"" + strings.Replace(hungry, "1h", "1d", 1), ""},
	{"a proxy without an address", "", "", strings.Replace(proxied, `listen = "127.0.0.1:9465"`, "", 1),
		`6: warning: credentials.c.proxy: does nothing without an address: add listen = "127.0.0.1:9465" to [proxy]`},
	{"an address without a proxy", "", "", proxied[:strings.Index(proxied, "[credentials.c.proxy]")], `2: warning: proxy.listen: no credential is proxied: add [credentials.NAME.proxy]`},
	{"remote callers without an address", "", "", strings.Replace(distant, "listen = \":9466\"\ncert_file = \"c.pem\"\nkey_file = \"c.key\"\n", "", 1),
		`17: warning: remote.callers: does nothing without an address: add listen = ":9466" to [remote]`},
	{"an address without remote callers", "", "", strings.Replace(distant[:strings.Index(distant, "[remote.callers")], `, "@shop"`, "", 1),
		`17: warning: remote.listen: no caller is configured: add [remote.callers.NAME] with its token_file and credentials`},
}

// Each row says what is wrong, where, and what to write, and no secret.
func TestOddFiles(t *testing.T) {
	dir := oddDir(t)
	t.Setenv("PATH", "/bin")
	for _, row := range oddFiles {
		t.Run(row.name, func(t *testing.T) {
			text := row.new
			if row.file != "" {
				text = edited(t, row.file, row.old, row.new)
			}
			if got := said(t, dir, text); got != row.want || strings.Contains(got, "Sesame") {
				t.Errorf("got:\n%s\nwant:\n%s", got, row.want)
			}
		})
	}
}

// oddDir returns a directory with the files that the rows name.
func oddDir(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	key := writeCertificates(t, dir, "c.pem")
	writeCertificates(t, dir, "other.pem")
	for name, text := range map[string]string{
		"c.key": key, "a.key": "the-key-of-sixteen", "empty.key": "\n", "two.key": "Sesame\nopen\n", "short.key": "DEMO_KEY", "quoted.key": `"Sesame-open-Sesame"`,
		"named.key": "YOUTUBE_API_KEY=Sesame-open-Sesame", "open.key": "Sesame",
		"read.env": "TOKEN=abc\n", "open.env": "TOKEN=abc\n", "public.key": key,
		"shop.token": strings.Repeat("1", 64) + "\n" + strings.Repeat("2", 64) + "\n", "blog.token": strings.Repeat("3", 64), "empty.token": " \n",
		"short.token": "hunter2", "three.token": strings.Repeat("4", 32) + "\n" + strings.Repeat("5",
			32) + "\n" + strings.Repeat("6", 32),
		"group.key": "the-key-of-sixteen",
	} {
		write(t, dir, name, text)
	}
	for name, mode := range map[string]os.FileMode{"open.key": 0o644, "read.env": 0o644, "public.key": 0o644,
		"open.env": 0o602, "group.key": 0o660} {
		must(t, os.Chmod(filepath.Join(dir, name), mode))
	}
	return dir
}

// A file of one line, with a byte order mark, with the line ends of Windows, or with tabs means what it means without.
func TestFormsOfAFile(t *testing.T) {
	const line = `credentials = { a = { limits = { day = { units = 9 } }, operations = { list = 1 } } }`
	for name, text := range map[string]string{
		"one line": line, "a byte order mark": "\ufeff" + good, "CRLF": strings.ReplaceAll(good, "\n", "\r\n"),
		"tabs": strings.ReplaceAll(good, " = ", "\t=\t"),
	} {
		if got := said(t, t.TempDir(), text); got != "" {
			t.Errorf("%s: got %s", name, got)
		}
	}
	const want = `1: credentials.a.limits.day.unit: unknown key: did you mean "units"?`
	if got := said(t, t.TempDir(), strings.Replace(line, "units", "unit", 1)); got != want {
		t.Errorf("a mistake in one line: got %s", got)
	}
}

// edited returns a file in which one thing takes the place of another.
func edited(t *testing.T, file, old, new string) string {
	t.Helper()
	if n := strings.Count(file, old); n != 1 {
		t.Fatalf("%q stands %d times in the file", old, n)
	}
	return strings.Replace(file, old, new, 1)
}

// said returns what is said of a file, a line for each error, or for each warning.
func said(t *testing.T, dir, text string) string {
	t.Helper()
	c, err := load(t, dir, text)
	var wrong Errors
	if err != nil && !errors.As(err, &wrong) {
		t.Fatalf("got the error %v, want errors with their lines", err)
	}
	var lines []string
	for _, one := range wrong {
		lines = append(lines, one.Error())
	}
	if err == nil {
		for _, one := range c.Warnings() {
			lines = append(lines, one.Warning())
		}
	}
	said := strings.Join(lines, "\n")
	return strings.NewReplacer(dir+"/", "", dir, "DIR", "config.toml:", "").Replace(said)
}
