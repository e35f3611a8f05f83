package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Files as people write them by mistake, or to see what happens. Each row changes
// one thing in the good file.
func TestOddFiles(t *testing.T) {
	tests := []struct {
		name     string
		old, new string // what stands in the good file, and what takes its place
		want     string // each error, and each warning of a file that is accepted, behind "config.toml:"
	}{
		{"an empty file", good, "", `1: credentials: no credential is configured: add [credentials.NAME.limits.NAME] and [credentials.NAME.operations]`},
		{"nothing but a comment", good, "# todo\n", `1: credentials: no credential is configured: add [credentials.NAME.limits.NAME] and [credentials.NAME.operations]`},
		{"a byte order mark", "\n[ledger]\nbackend", "\ufeff\n[ledger]\nbackend", ""},
		{"windows line ends", "backend = \"embedded\"\n", "backend = \"embedded\"\r\n", ""},
		{"JSON", good, "{\"ledger\": {\"backend\": \"embedded\"}}", `1: not TOML: expected '.' or '=', but got '{' instead`},
		{"YAML", good, "ledger:\n  backend: embedded\n", `1: not TOML: expected '.' or '=', but got ':' instead`},
		{"INI with semicolons", "backend = \"embedded\"", "backend = \"embedded\" ; a file", `3: ledger: not TOML: expected a top-level item to end with a newline, comment, or EOF, but got ';' instead; a comment begins with #`},
		{"a NUL", "backend = \"embedded\"", "backend = \"embed\x00ded\"", `3: ledger.backend: not TOML: TOML files cannot contain control characters: '0x00'`},
		{"no UTF-8", "backend = \"embedded\"", "backend = \"embed\xffded\"", `3: ledger.backend: not TOML: invalid UTF-8 byte: 0xff`},
		{"a table twice", "[credentials.youtube.operations]", "[credentials.youtube.limits.daily]\nunits = 1\n[credentials.youtube.operations]", `15: credentials.youtube.limits: not TOML: Key 'credentials.youtube.limits.daily' has already been defined on line 5: remove one of the two`},
		{"a key twice", "reserve = 500", "reserve = 500\nreserve = 600", `8: credentials.youtube.limits.daily.reserve: not TOML: Key 'credentials.youtube.limits.daily.reserve' has already been defined on line 7: remove one of the two`},
		{"an unclosed string", "backend = \"embedded\"", "backend = \"embedded", `3: ledger.backend: not TOML: strings cannot contain newlines`},
		{"an unclosed array", "regions = [\"US\", \"GB\", \"DE\"]", "regions = [\"US\", \"GB\", \"DE\"", `22: jobs.trending.regions: not TOML: expected a comma (',') or array terminator (']'), but got 'e'`},
		{"a quote from a word processor", "backend = \"embedded\"", "backend = “embedded”", `3: ledger.backend: not TOML: expected value but found '“' instead; a string is in plain quotes, "…"`},
		{"an array of tables", "[jobs.trending]", "[[jobs]]\nname = \"trending\"", `19: jobs: must be a table, [jobs], not an array of tables`},
		{"a table deep in tables", "[ledger]", "[a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.b]\n[ledger]", `2: tables and arrays lie more than 32 deep here: is a bracket or a brace not closed?`},
		{"brackets without end", "[ledger]", "x = [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\n[ledger]", `2: tables and arrays lie more than 32 deep here: is a bracket or a brace not closed?`},
		{"brackets in a string", "command = [\"fetch\", \"trending\"]", "command = [\"fetch\", \"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"]", ""},
		{"capital table", "[ledger]", "[Ledger]", `2: Ledger: unknown key: did you mean "ledger"?`},
		{"capital key", "units = 10_000", "Units = 10_000", `6: credentials.youtube.limits.daily.Units: unknown key: did you mean "units"?`},
		{"a hyphen for an underscore", "timeout = \"2m\"", "max-wait = \"5s\"", `26: jobs.trending.max-wait: unknown key: did you mean "max_wait"?`},
		{"plural table", "[credentials.youtube.operations]", "[credentials.youtube.operation]", `15: credentials.youtube.operation: unknown key: did you mean "operations"?`},
		{"singular table", "[jobs.trending]", "[job.trending]", `19: job: unknown key: did you mean "jobs"?`},
		{"credential without its name", "[credentials.youtube.operations]", "[credentials.operations]", `15: credentials.operations: is in no credential: give that a name, such as [credentials.youtube.operations]`},
		{"limit without its name", "[credentials.youtube.limits.daily]", "[credentials.youtube.limits]", `6: credentials.youtube.limits.units: is in no table of its own: give that a name, such as [credentials.youtube.limits.daily]`},
		{"job without its name", "[jobs.trending]", "[jobs]", `20: jobs.credential: is in no table of its own: give that a name, such as [jobs.trending]`},
		{"operation unquoted", "\"videos.list\" = 1", "videos.list = 1", `17: credentials.youtube.operations.videos: must not be a table: an operation with a dot in its name needs quotes, "videos.list"`},
		{"operation unquoted, with three parts", "\"videos.list\" = 1", "\"videos.list\" = 1\nyoutube.videos.list = 1", `18: credentials.youtube.operations.youtube: must not be a table: an operation with a dot in its name needs quotes, "youtube.videos.list"`},
		{"operation as a table", "\"videos.list\" = 1", "\"videos.list\" = 1\n[credentials.youtube.operations.comments]\nlist = 1", `18: credentials.youtube.operations.comments: must not be a table: an operation with a dot in its name needs quotes, "comments.list"`},
		{"expects unquoted", "expects = { \"videos.list\" = 4 }", "expects = { videos.list = 4 }", `24: jobs.trending.expects.videos: must not be a table: an operation with a dot in its name needs quotes, "videos.list"`},
		{"a manual job", "every = \"30m\"\nstagger = \"2s\"", "schedule = \"manual\"", ""},
		{"a manual job with a period", "every = \"30m\"\nstagger = \"2s\"", "schedule = \"manual\"\nevery = \"30m\"", `23: jobs.trending.every: has no effect with schedule = "manual": remove one of the two`},
		{"a manual job with times", "every = \"30m\"\nstagger = \"2s\"", "schedule = \"manual\"\nstagger = \"2s\"\nmissed = \"skip\"", `23: jobs.trending.stagger: has no effect with schedule = "manual": remove one of the two` + "\n" +
			`24: jobs.trending.missed: has no effect with schedule = "manual": remove one of the two`},
		{"a manual job with a cron line", "every = \"30m\"\nstagger = \"2s\"",
			"schedule = \"manual\"\ncron = \"0 9 * * *\"\ntimezone = \"UTC\"",
			`23: jobs.trending.cron: has no effect with schedule = "manual": remove one of the two` + "\n" +
				`24: jobs.trending.timezone: has no effect with schedule = "manual": remove one of the two`},
		{"a manual job at the start", "every = \"30m\"\nstagger = \"2s\"", "schedule = \"manual\"\nrun_at_start = true", `23: jobs.trending.run_at_start: only a person begins a run of a manual job: remove it`},
		{"a schedule in words", "every = \"30m\"\nstagger = \"2s\"", "schedule = \"every 30m\"", `22: jobs.trending.schedule: must be "manual", not "every 30m": write a period as every, and a cron line as cron`},
		{"outage unquoted", "[credentials.youtube.operations]", "[credentials.youtube.on_outage]\nvideos.list = \"open\"\nopen_units = 1\n[credentials.youtube.operations]", `16: credentials.youtube.on_outage.videos: must not be a table: an operation with a dot in its name needs quotes, "videos.list"`},
		{"a limit misspelt in a cost", "\"search.list\" = 100", "\"search.list\" = { dayly = 100 }", `16: credentials.youtube.operations."search.list": unknown limit "dayly": did you mean "daily"?`},
		{"a limit misspelt in a cost of a plain name", "\"videos.list\" = 1", "\"videos.list\" = 1\nlist = { dayly = 100 }", `18: credentials.youtube.operations.list: unknown limit "dayly": did you mean "daily"?`},
		{"a cost with a unit", "\"videos.list\" = 1", "\"videos.list\" = \"1 unit\"", `17: credentials.youtube.operations."videos.list": must be a number of units, or a table of them per limit: { daily = 100 }, not the string "1 unit"`},
		{"a cost below zero", "\"videos.list\" = 1", "\"videos.list\" = -1", `17: credentials.youtube.operations."videos.list": the cost must be from 0 to 9007199254740991: -1`},
		{"a cost of nothing", "\"videos.list\" = 1", "\"videos.list\" = 0", ""},
		{"a cost of nothing in one limit", "\"search.list\" = 100", "\"search.list\" = { daily = 100, search = 0 }", `10: credentials.youtube.limits.search: no operation costs anything in it, so it would deny nothing: name it in the operations that it should count`},
		{"a fraction of a unit", "\"videos.list\" = 1", "\"videos.list\" = 0.5", `17: credentials.youtube.operations."videos.list": must be a number of units, or a table of them per limit: { daily = 100 }, not 0.5`},
		{"a cost of true", "\"videos.list\" = 1", "\"videos.list\" = true", `17: credentials.youtube.operations."videos.list": must be a number of units, or a table of them per limit: { daily = 100 }, not true`},
		{"no operations", "\"search.list\" = 100\n\"videos.list\" = 1\n", "", `15: credentials.youtube.operations: a credential needs at least one operation: one that is not listed is refused`},
		{"an empty cost table", "\"videos.list\" = 1", "\"videos.list\" = {}", `17: credentials.youtube.operations."videos.list": no limit counts this operation, so it would be free: name it in a limit's only, or give it a cost in one; a cost of 0 is free`},
		{"units in scientific notation", "units = 10_000", "units = 1e4", `6: credentials.youtube.limits.daily.units: must be a whole number, not the fraction 10000.0: write 10000`},
		{"units with a fraction of zero", "units = 10_000", "units = 10000.0", `6: credentials.youtube.limits.daily.units: must be a whole number, not the fraction 10000.0: write 10000`},
		{"units below zero", "units = 10_000", "units = -5", `6: credentials.youtube.limits.daily.units: must be from 1 to 9007199254740991: -5`},
		{"no units", "units = 10_000", "units = 0", `6: credentials.youtube.limits.daily.units: must be from 1 to 9007199254740991: 0`},
		{"more units than can be counted", "units = 10_000", "units = 9007199254740993", `6: credentials.youtube.limits.daily.units: must be from 1 to 9007199254740991: 9007199254740993`},
		{"more units than TOML knows", "units = 10_000", "units = 99999999999999999999", `6: credentials.youtube.limits.daily.units: not TOML: 99999999999999999999 is out of range for int64`},
		{"units in quotes", "units = 10_000", "units = \"10000\"", `6: credentials.youtube.limits.daily.units: must be a whole number, not the string "10000"`},
		{"units with a comma", "units = 10_000", "units = 10,000", `6: credentials.youtube.limits.daily: not TOML: expected a top-level item to end with a newline, comment, or EOF, but got ',' instead; a large number is written 10_000`},
		{"units in hexadecimal", "units = 10_000", "units = 0x2710", ""},
		{"infinite units", "units = 10_000", "units = inf", `6: credentials.youtube.limits.daily.units: must be a whole number, not +Inf`},
		{"units with a k", "units = 10_000", "units = 10k", `6: credentials.youtube.limits.daily: not TOML: expected a top-level item to end with a newline, comment, or EOF, but got 'k' instead; a large number is written 10_000`},
		{"reserve as a percentage", "reserve = 500", "reserve = \"5%\"", `7: credentials.youtube.limits.daily.reserve: must be a whole number, not the string "5%"`},
		{"reserve of everything", "reserve = 500", "reserve = 10_000", `7: credentials.youtube.limits.daily.reserve: must be at least 0 and less than units (10000): 10000`},
		{"a window in words", "units = 4_000\nwindow = \"7d\"", "units = 4_000\nwindow = \"daily\"", `12: credentials.youtube.limits.search.window: "daily" is not a duration: write a number with its unit, such as "90s", "30m", "24h" or "7d"`},
		{"a window in weeks", "units = 4_000\nwindow = \"7d\"", "units = 4_000\nwindow = \"1w\"", `12: credentials.youtube.limits.search.window: "1w" is not a duration: write a number with its unit, such as "90s", "30m", "24h" or "7d"`},
		{"a window in capitals", "units = 4_000\nwindow = \"7d\"", "units = 4_000\nwindow = \"7D\"", `12: credentials.youtube.limits.search.window: "7D" is not a duration: write a number with its unit, such as "90s", "30m", "24h" or "7d"`},
		{"a window with a space", "units = 4_000\nwindow = \"7d\"", "units = 4_000\nwindow = \"7 d\"", `12: credentials.youtube.limits.search.window: "7 d" is not a duration: write a number with its unit, such as "90s", "30m", "24h" or "7d"`},
		{"a window as an empty string", "units = 4_000\nwindow = \"7d\"", "units = 4_000\nwindow = \"\"", `12: credentials.youtube.limits.search.window: "" is not a duration: write a number with its unit, such as "90s", "30m", "24h" or "7d"`},
		{"an empty calendar window", "units = 4_000\nwindow = \"7d\"", "units = 4_000\nwindow = {}", `12: credentials.youtube.limits.search.window.calendar: is missing: add calendar = "day"` + "\n" +
			`12: credentials.youtube.limits.search.window.timezone: is missing: add timezone = "America/Los_Angeles", where the period begins`},
		{"the host's own zone", "units = 4_000\nwindow = \"7d\"", "units = 4_000\nwindow = { calendar = \"day\", timezone = \"Local\" }", `12: credentials.youtube.limits.search.window.timezone: unknown time zone "Local": use a name of the IANA database, such as "Europe/Berlin"`},
		{"a zone as an abbreviation", "units = 4_000\nwindow = \"7d\"", "units = 4_000\nwindow = { calendar = \"day\", timezone = \"PST\" }", `12: credentials.youtube.limits.search.window.timezone: unknown time zone "PST": did you mean "America/Los_Angeles"?`},
		{"a zone as an offset", "units = 4_000\nwindow = \"7d\"", "units = 4_000\nwindow = { calendar = \"day\", timezone = \"UTC-8\" }", `12: credentials.youtube.limits.search.window.timezone: unknown time zone "UTC-8": use a name of the IANA database, such as "Europe/Berlin"`},
		{"a zone that leads elsewhere", "units = 4_000\nwindow = \"7d\"", "units = 4_000\nwindow = { calendar = \"day\", timezone = \"../UTC\" }", `12: credentials.youtube.limits.search.window.timezone: unknown time zone "../UTC": use a name of the IANA database, such as "Europe/Berlin"`},
		{"a duration as a number", "timeout = \"2m\"", "timeout = 120", `26: jobs.trending.timeout: must be a duration in quotes, such as "90s", "30m", "24h" or "7d", not 120`},
		{"a duration as a time of day", "timeout = \"2m\"", "timeout = 00:02:00", `26: jobs.trending.timeout: must be a duration in quotes, such as "90s", "30m", "24h" or "7d", not a date or time`},
		{"an overlong duration", "timeout = \"2m\"", "timeout = \"999999d\"", `26: jobs.trending.timeout: "999999d" is too long`},
		{"more days than can be counted", "timeout = \"2m\"", "timeout = \"99999999999d\"", `26: jobs.trending.timeout: "99999999999d" is too long`},
		{"every in words", "every = \"30m\"", "every = \"hourly\"", `22: jobs.trending.every: "hourly" is not a duration: write a number with its unit, such as "90s", "30m", "24h" or "7d"`},
		{"every of nothing", "every = \"30m\"", "every = \"0s\"", `22: jobs.trending.every: must be longer than zero`},
		{"cron by a nickname", "every = \"30m\"", "cron = \"@hourly\"", ""},
		{"cron with a zone in it", "every = \"30m\"", "cron = \"TZ=UTC 0 * * * *\"", `22: jobs.trending.cron: cannot use cron line "TZ=UTC 0 * * * *": leave the time zone out of the line, and set timezone`},
		{"cron with a sixth field", "every = \"30m\"", "cron = \"0 0 * * * *\"", ""},
		{"cron beyond its range", "every = \"30m\"", "cron = \"61 * * * *\"", `22: jobs.trending.cron: cannot use cron line "61 * * * *": end of range (61) above maximum (59): 61; a line has minute (0-59), hour (0-23), day (1-31), month (1-12) and weekday (0-7)`},
		{"an empty cron line", "every = \"30m\"", "cron = \"\"", `22: jobs.trending.cron: cannot use cron line "": expected 5 to 6 fields, found 0: []; a line has minute (0-59), hour (0-23), day (1-31), month (1-12) and weekday (0-7)`},
		{"Sundays as crond has them", "every = \"30m\"", "cron = \"0 0 * * 5-7\"", ""},
		{"cron with a long step", "every = \"30m\"", "cron = \"*/90 * * * *\"", `22: jobs.trending.cron: a step of 90 never comes within a field that ends at 59: for a period, write every = "90m"`},
		{"cron with a user and a command", "every = \"30m\"", "cron = \"*/5 * * * * root fetch\"", `22: jobs.trending.cron: cannot use cron line "*/5 * * * * root fetch": expected 5 to 6 fields, found 7: [*/5 * * * * root fetch]; a line has minute (0-59), hour (0-23), day (1-31), month (1-12) and weekday (0-7)`},
		{"a window by a period", "units = 4_000\nwindow = \"7d\"", "units = 4_000\nwindow = \"day\"", `12: credentials.youtube.limits.search.window: "day" is not a duration: write "24h" for any day, or { calendar = "day", timezone = "America/Los_Angeles" }`},
		{"a zone with a space", "units = 4_000\nwindow = \"7d\"", "units = 4_000\nwindow = { calendar = \"day\", timezone = \"America/Los Angeles\" }", `12: credentials.youtube.limits.search.window.timezone: unknown time zone "America/Los Angeles": did you mean "America/Los_Angeles"?`},
		{"a beginning at the year one", "units = 4_000\nwindow = \"7d\"", "units = 4_000\nwindow = { every = \"24h\", from = \"0001-01-01T00:00:00Z\" }", `12: credentials.youtube.limits.search.window.from: must lie in 1970 or later: 0001-01-01T00:00:00Z`},
		{"an operation by its beginning", "expects = { \"videos.list\" = 4 }", "expects = { \"search\" = 1 }", `24: jobs.trending.expects.search: operation "search" is not listed for credential "youtube": did you mean "search.list"?`},
		{"cron by a name of a day", "every = \"30m\"", "cron = \"0 9 * * MON-FRI\"", ""},
		{"regions as one string", "regions = [\"US\", \"GB\", \"DE\"]", "regions = \"US,GB,DE\"", `21: jobs.trending.regions: must be an array of strings, such as ["one", "two"], not the string "US,GB,DE"`},
		{"an empty region", "regions = [\"US\", \"GB\", \"DE\"]", "regions = [\"US\", \"\"]", `21: jobs.trending.regions: a region has 1 to 128 bytes, not 0: ""`},
		{"a region that is a path", "regions = [\"US\", \"GB\", \"DE\"]", "regions = [\"US\", \"..\"]", `21: jobs.trending.regions: ".." means a directory: a region needs another name`},
		{"regions twice by case", "regions = [\"US\", \"GB\", \"DE\"]", "regions = [\"US\", \"us\"]", ""},
		{"a pipeline", "command = [\"fetch\", \"trending\"]", "command = [\"fetch\", \"trending\", \"|\", \"sort\"]", `25: warning: jobs.trending.command: "|" is handed to the program as it is, since no shell reads a command: for a pipeline, write ["sh", "-c", "fetch trending | sort"]`},
		{"a pipeline in one string", "command = [\"fetch\", \"trending\"]", "command = \"fetch trending | sort\"", `25: jobs.trending.command: must be an array of strings, ["sh", "-c", "fetch trending | sort"], not the string "fetch trending | sort"`},
		{"a pipeline in one word", "command = [\"fetch\", \"trending\"]", "command = [\"fetch trending | sort\"]", `25: jobs.trending.command: command "fetch trending | sort" not found: it is neither in the directory of quotad nor in PATH: DIR, /bin; if that is a whole line, write ["sh", "-c", "fetch trending | sort"]`},
		{"a line in one word", "command = [\"fetch\", \"trending\"]", "command = [\"fetch trending\"]", `25: jobs.trending.command: command "fetch trending" not found: it is neither in the directory of quotad nor in PATH: DIR, /bin; if that is a whole line, write ["fetch", "trending"]`},
		{"a variable before the command", "command = [\"fetch\", \"trending\"]", "command = [\"KEY=1\", \"fetch\"]", `25: jobs.trending.command: command "KEY=1" not found: it is neither in the directory of quotad nor in PATH: DIR, /bin; a variable is set in env = { KEY = "…" }`},
		{"a home directory", "command = [\"fetch\", \"trending\"]", "command = [\"~/fetch\"]", `25: jobs.trending.command: command "~/fetch" not found: there is no ~/fetch; ~ is not known here: write the whole path`},
		{"a command with a number", "command = [\"fetch\", \"trending\"]", "command = [\"fetch\", 5]", `25: jobs.trending.command: must hold strings in quotes, not 5`},
		{"a directory as the command", "command = [\"fetch\", \"trending\"]", "command = [\"./\"]", `25: jobs.trending.command: cannot use command "./": DIR is a directory`},
		{"an empty program", "command = [\"fetch\", \"trending\"]", "command = [\"\", \"trending\"]", `25: jobs.trending.command: a job needs a command: the program and its arguments, ["ytfetch", "trending"]`},
		{"a directory as env_file", "timeout = \"2m\"", "env_file = \".\"", `26: jobs.trending.env_file: cannot be read: DIR is a directory: name a regular file`},
		{"a pipe as env_file", "timeout = \"2m\"", "env_file = \"pipe\"", `26: jobs.trending.env_file: cannot be read: pipe is a named pipe: name a regular file`},
		{"a device as env_file", "timeout = \"2m\"", "env_file = \"/dev/zero\"", `26: jobs.trending.env_file: cannot be read: /dev/zero is a device: name a regular file`},
		{"an env_file that everybody may write", "timeout = \"2m\"", "env_file = \"open.env\"", `26: warning: jobs.trending.env_file: everybody on this host may write open.env: chmod o-w open.env`},
		{"an env_file that everybody may read", "timeout = \"2m\"", "env_file = \"read.env\"", `26: jobs.trending.env_file: everybody on this host may read read.env, and with it the job's secrets: chmod o-r read.env`},
		{"a password that everybody may read", "backend = \"embedded\"", "backend = \"redis\"\nredis.password_file = \"read.env\"", `4: ledger.redis.password_file: everybody on this host may read read.env, and with it the password: chmod o-r read.env`},
		{"a key that everybody may read", "backend = \"embedded\"", "backend = \"redis\"\nredis.tls.key_file = \"read.env\"", `4: ledger.redis.tls.key_file: everybody on this host may read read.env, and with it the key of the certificate: chmod o-r read.env`},
		{"a directory that is not there", "timeout = \"2m\"", "dir = \"dtaa\"", `26: jobs.trending.dir: there is no directory dtaa: create it, or leave dir out for data/trending in state_dir`},
		{"a file as the directory", "timeout = \"2m\"", "dir = \"fetch\"", `26: jobs.trending.dir: fetch is a file: name a directory, or leave dir out for data/trending in state_dir`},
		{"env as an array", "timeout = \"2m\"", "env = [\"LEVEL=1\"]", `26: jobs.trending.env: must be a table, [jobs.trending.env], not an array`},
		{"env with a number", "timeout = \"2m\"", "env = { LEVEL = 1 }", `26: jobs.trending.env.LEVEL: must be a string in quotes, not 1`},
		{"env with a name that is none", "timeout = \"2m\"", "env = { \"MY LEVEL\" = \"1\" }", `26: jobs.trending.env."MY LEVEL": is not the name of a variable: use letters, digits and '_'`},
		{"a pipe as a password", "backend = \"embedded\"", "backend = \"redis\"\nredis.password_file = \"pipe\"", `4: ledger.redis.password_file: cannot be read: pipe is a named pipe: name a regular file`},
		{"redis without its backend", "backend = \"embedded\"", "redis.addrs = [\"127.0.0.1:6379\"]", `3: ledger.redis: is not used by the embedded ledger: set backend = "redis" in [ledger], or remove this table`},
		{"redis beside the embedded ledger", "backend = \"embedded\"", "backend = \"embedded\"\n[ledger.redis]", `4: ledger.redis: is not used by the embedded ledger: set backend = "redis" in [ledger], or remove this table`},
		{"outage of the embedded ledger", "[credentials.youtube.operations]", "[credentials.youtube.on_outage]\ndefault = \"open\"\nopen_units = 1\n[credentials.youtube.operations]", `15: warning: credentials.youtube.on_outage: does nothing with the embedded ledger, which is always there: remove it, or set backend = "redis" in [ledger]`},
		{"a password in the file", "backend = \"embedded\"", "backend = \"redis\"\nredis.password = \"hunter2\"", `4: ledger.redis.password: unknown key: known are "addrs", "key_prefix", "master_name", "password_file", "tls", "username"`},
		{"addrs as one string", "backend = \"embedded\"", "backend = \"redis\"\nredis.addrs = \"127.0.0.1:6379\"", `4: ledger.redis.addrs: must be an array of strings, such as ["one", "two"], not the string "127.0.0.1:6379"`},
		{"a URL as an address", "backend = \"embedded\"", "backend = \"redis\"\nredis.addrs = [\"redis://127.0.0.1:6379\"]", `4: ledger.redis.addrs: "redis://127.0.0.1:6379" is not an address: write "host:port" or "unix:///path"`},
		{"a port alone", "backend = \"embedded\"", "backend = \"redis\"\nredis.addrs = [6379]", `4: ledger.redis.addrs: must hold strings in quotes, not 6379`},
		{"no addrs", "backend = \"embedded\"", "backend = \"redis\"\nredis.addrs = []", `4: ledger.redis.addrs: must hold at least one "host:port" or "unix:///path"`},
		{"an empty tls table", "backend = \"embedded\"", "backend = \"redis\"\nredis.tls = {}", ""},
		{"log level in capitals", "[ledger]", "log.level = \"INFO\"\n[ledger]", `2: log.level: must be one of "debug", "info", "warn", "error", not "INFO"`},
		{"a mode for the socket", "[ledger]", "socket_mode = 0o666\n[ledger]", `2: socket_mode: unknown key: known are "access", "clients", "credentials", "jobs", "ledger", "log", "metrics", "name", "on_event", "passes", "proxy", "remote", "socket", "state_dir"`},
		{"a large number in the Swiss way", "units = 10_000", "units = 10'000", `6: credentials.youtube.limits.daily: not TOML: expected a top-level item to end with a newline, comment, or EOF, but got '\'' instead; a large number is written 10_000`},
		{"a cost in scientific notation", "\"videos.list\" = 1", "\"videos.list\" = 1e0", `17: credentials.youtube.operations."videos.list": must be a number of units, or a table of them per limit: { daily = 100 }, not the fraction 1.0: write 1`},
		{"parallel as a string", "timeout = \"2m\"", "parallel = \"2\"", `26: jobs.trending.parallel: must be a whole number, not the string "2"`},
		{"a date for a duration", "timeout = \"2m\"", "timeout = 2026-01-01", `26: jobs.trending.timeout: must be a duration in quotes, such as "90s", "30m", "24h" or "7d", not a date or time`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("PATH", "/bin")
			must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
			write(t, dir, "open.env", "TOKEN=abc\n")
			write(t, dir, "read.env", "TOKEN=abc\n")
			for name, mode := range map[string]fs.FileMode{"open.env": 0o622, "read.env": 0o604} {
				must(t, os.Chmod(filepath.Join(dir, name), mode))
			}
			if got := said(t, dir, edited(t, good, test.old, test.new)); got != test.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, test.want)
			}
		})
	}
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
