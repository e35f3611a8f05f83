package config

// A meaning is what the reference says of a table or of a key, beside its type and the tags
// of its field in tables.go.
type meaning struct {
	key     string // NAME stands for a name that you choose
	value   string // what may stand there; empty: the type says it
	example string // a value, as TOML; empty for a table
	absent  string // what an absent key means; empty: the default, if the field has one
	means   string
}

const required = "required"

// meanings has a row for each table and each key; a test finds those that lack one.
func meanings() []meaning {
	return []meaning{
		{"", "", "", "", "Write these keys before the first [table] of the file."},
		{"state_dir", "", `"/var/lib/quotad"`, "$STATE_DIRECTORY, which systemd sets; else .quotad in the working directory", "The directory of the ledger, of the jobs' cursors, and of what jobs fetch. quotad makes it if it is not there."},
		{"socket", "", `"/run/quotad.sock"`, "the socket that systemd passes; else quotad.sock in state_dir", "The Unix socket at which quotad answers. Its path has at most 107 bytes."},

		{"ledger", "", "", "", "Where quotad keeps the log of what was spent."},
		{"ledger.backend", "", `"redis"`, "", `"embedded" is a durable file in state_dir, for one host. "redis" is a log in Redis that several hosts share.`},
		{"ledger.sync", "", `"off"`, "", `"always" writes each grant to the disk before it is answered. "off" does not wait for the disk: a power failure may lose the last grants. It works only with the embedded ledger.`},
		{"ledger.deadline", "", `"500ms"`, "", "The longest time that one decision may take. If Redis does not answer within it, on_outage decides."},

		{"ledger.redis", "", "", "", `How to reach Redis. This table needs backend = "redis" in [ledger].`},
		{"ledger.redis.addrs", `array of "host:port" or "unix:///path"`, `["127.0.0.1:6379"]`, `["127.0.0.1:6379"]`, "The addresses of Redis. Several addresses are those of a Redis Cluster; with master_name they are those of Sentinels. The address of a socket stands alone."},
		{"ledger.redis.master_name", "", `"quota"`, "no Sentinels", "The name of the master that the Sentinels in addrs watch."},
		{"ledger.redis.username", "", `"quotad"`, "the default user of Redis", "The user that quotad authenticates as."},
		{"ledger.redis.password_file", "", `"redis.password"`, "no password", "The file that holds the password. Close it to others: chmod 640."},
		{"ledger.redis.db", "whole number, 0 or more", `0`, "0", "The number of the database. A Redis Cluster has only database 0."},
		{"ledger.redis.key_prefix", "", `"quotad:"`, `"quotad:"`, "What all keys in Redis begin with. Hosts that share a ledger have the same prefix. It holds no braces."},

		{"ledger.redis.tls", "table, or true", `true`, "no TLS", "Connect to Redis by TLS 1.2 or newer. true is an empty table: it trusts the authorities of the system and shows no certificate."},
		{"ledger.redis.tls.ca_file", "", `"ca.pem"`, "the authorities of the system", "The certificates, in PEM form, of the authorities to trust instead."},
		{"ledger.redis.tls.cert_file", "", `"client.pem"`, "none", "The certificate, in PEM form, that quotad shows to Redis. It needs key_file."},
		{"ledger.redis.tls.key_file", "", `"client.key"`, "none", "The key of cert_file, in PEM form."},
		{"ledger.redis.tls.server_name", "", `"redis.example.org"`, "the host in addrs", "The name that the certificate of the server must have."},

		{"credentials.NAME", "", "", "", "A credential is an account or a project whose quota is shared. It has at least one limit and one operation. quotad knows only its name: the key itself goes to the jobs, or into key_file."},
		{"credentials.NAME.preset", "name of a preset", `"youtube-2026-06"`, "none", "Brings limits, operations and answers of a known provider. quotad --presets prints them. A key in your file overrides the preset's."},

		{"credentials.NAME.limits.NAME", "", "", "", "A limit is a number of units in a window of time. A call is granted if every limit that counts its operation has room."},
		{"credentials.NAME.limits.NAME.units", "whole number of units, 1 to 9007199254740991", `10_000`, required, "What the upstream grants in one window."},
		{"credentials.NAME.limits.NAME.reserve", "whole number of units, 0 or more and less than units", `500`, "0", "What ordinary jobs leave over, for an operator and for calls in flight. Jobs stop at units less reserve."},
		{"credentials.NAME.limits.NAME.window", "", `"24h"`, `"24h"; of a share the window of its pool`, "The time in which units may be spent. A duration, at most 366d, slides: it holds for any 24 hours. For an upstream that resets by the calendar, name a calendar window."},
		{"credentials.NAME.limits.NAME.only", "array of operations", `["search.list"]`, "every operation", "The operations that the limit counts."},
		{"credentials.NAME.limits.NAME.jobs", "array of jobs", `["backfill"]`, "everybody's calls", "Makes the limit a share: it counts the calls of these jobs only, and so caps them. It cannot be combined with except_jobs."},
		{"credentials.NAME.limits.NAME.callers", "array of remote callers", `["shop"]`, "none", "Makes the limit a share of these remote callers, together with jobs. See [remote]."},
		{"credentials.NAME.limits.NAME.except_jobs", "array of jobs", `["trending"]`, "everybody's calls", "Makes the limit a share: it counts the calls of everybody but these jobs, and so keeps the rest of the pool for them."},
		{"credentials.NAME.limits.NAME.lift", "duration, shorter than the period", `"4h"`, "the limit holds to the end", "In this last part of each period the limit refuses nothing. It needs a calendar window."},
		{"credentials.NAME.limits.NAME.enforce", "", `false`, "", "false: a dry run. The limit counts, and quotad grants, logs and counts what it would have denied."},

		{"credentials.NAME.limits.NAME.upstream", "", "", "", "The upstream's own side of the limit."},
		{"credentials.NAME.limits.NAME.upstream.names", "", `["defaultPerDayPerProject"]`, "unknown", "What the upstream's answers call the limit. An answer that names it as exhausted closes it."},
		{"credentials.NAME.limits.NAME.upstream.resets", "calendar window", `{ calendar = "day", timezone = "America/Los_Angeles" }`, "unknown", "When the upstream gives the limit back."},

		{"credentials.NAME.operations", "table: an operation and its units, 1 or more; or a table of units per limit", `{ "search.list" = 100, "videos.list" = { daily = 1 } }`, required + ", unless a preset lists them", "What one call of each operation costs, in every limit that counts it or per limit. quotad refuses an operation that is not listed. A name with a dot needs quotes."},

		{"credentials.NAME.on_outage", "", "", "", "What quotad does while it cannot reach the ledger in Redis. The embedded ledger is always there."},
		{"credentials.NAME.on_outage.default", "", `"open"`, "", `"closed" refuses every call. "open" grants calls within open_units.`},
		{"credentials.NAME.on_outage.open_units", "whole number of units, 1 to 9007199254740991", `50`, required + " where an operation is open", "The most that each host may grant in any window while the ledger is away. Keep it within the reserve."},
		{"credentials.NAME.on_outage.OPERATION", `"open" or "closed"`, `"open"`, "as default says", "The same for one operation of the credential, by its name in quotes."},

		{"credentials.NAME.answers", "", "", "", "How the upstream words its answers, beyond what quotad knows of them."},
		{"credentials.NAME.answers.reasons", `table: a reason and "ok", "minute", "day", "config", "billing" or "unknown"`, `{ uploadLimitExceeded = "ok" }`, "the common reasons", "What a reason in an error of the upstream means: nothing, a limit of the minute or of the day, a wrong configuration, an unpaid bill."},

		{"credentials.NAME.answers.headers", "", "", "", "The headers in which the upstream says what is spent. Each key names a header."},
		{"credentials.NAME.answers.headers.limit", "name of a header", `"x-ratelimit-limit"`, "none", "The header that holds the size of the limit."},
		{"credentials.NAME.answers.headers.used", "name of a header", `"x-ratelimit-used"`, "none", "The header that holds what is spent."},
		{"credentials.NAME.answers.headers.remaining", "name of a header", `"x-ratelimit-remaining"`, "none", "The header that holds what is left."},
		{"credentials.NAME.answers.headers.ratio", "name of a header", `"x-usage"`, "none", "The header that holds both as used/limit."},
		{"credentials.NAME.answers.headers.resource", "name of a header", `"x-ratelimit-resource"`, "none", "The header that names the limit, as upstream.names lists it."},
		{"credentials.NAME.answers.headers.reset", "name of a header", `"x-ratelimit-reset"`, "none", "The header that says when the limit comes back. It needs reset_is."},
		{"credentials.NAME.answers.headers.reset_is", "", `"epoch"`, required + " beside reset", `How reset is written: seconds since 1970, seconds from now, a duration such as "6m0s", or a date by RFC 3339.`},

		{"credentials.NAME.proxy", "", "", "", "Jobs may call the upstream through quotad's proxy, see [proxy]. quotad acquires each call and sends it with the real key. A preset brings all keys but key_file."},
		{"credentials.NAME.proxy.upstream", "URL", `"https://www.googleapis.com"`, required + ", unless a preset brings it", "The address of the API. http is for a loopback address only, since the key would travel in plain text."},
		{"credentials.NAME.proxy.key_file", "", `"youtube.key"`, required, "The file that holds the real key, and nothing else. Only quotad reads it, and no job ever sees the key. quotad refuses a file that everybody may read."},
		{"credentials.NAME.proxy.key_header", "name of a header", `"X-Goog-Api-Key"`, "", "The header in which quotad sends the key. In Authorization, Bearer stands before it."},
		{"credentials.NAME.proxy.billing", "", `"not-304"`, "", `"always": each answer costs what its operation does, an error too. "not-304": an answer 304 is free.`},
		{"credentials.NAME.proxy.dialect", "", `"google"`, "", `How quotad words a denial, so that clients of the provider stop. "problem" is RFC 9457.`},
		{"credentials.NAME.proxy.routes", "table: a method with a path, and an operation", `{ "GET /youtube/v3/search" = "search.list" }`, required + ", unless a preset brings it", `Which operation a request is. quotad refuses a request that no route matches, and one whose operation is "".`},

		{"jobs.NAME", "", "", "", "A job is a command that quotad runs once for each region, by a schedule, within the budget of its credential. It needs every, cron or schedule."},
		{"jobs.NAME.credential", "name of a credential", `"youtube"`, required, "The credential that the calls of the job are charged to."},
		{"jobs.NAME.regions", "array of names", `["US", "GB", "DE"]`, required + ", unless items is there", "What a run goes through, one pass each. A name is made of letters, digits, _ and -; none stands twice."},
		{"jobs.NAME.items", "", `["München", "c++"]`, "regions", "The same of any texts, instead of regions."},
		{"jobs.NAME.every", "duration, 1s or more", `"30m"`, "cron or schedule", "The time from one run to the next, counted from midnight UTC."},
		{"jobs.NAME.offset", "duration, less than every", `"7m"`, `"0s"`, "How long after each period a run begins: with every = \"30m\" at 7 and 37 minutes past the hour."},
		{"jobs.NAME.cron", "cron line of 5 fields, or of 6 with seconds", `"*/30 * * * *"`, "every or schedule", "When runs begin, instead of every."},
		{"jobs.NAME.timezone", "", `"Europe/Berlin"`, "", "The time zone that cron goes by. It works only with cron."},
		{"jobs.NAME.schedule", `"manual"`, `"manual"`, "every or cron", "The job runs only when you say so: quotactl run NAME. It stands instead of every and cron, without stagger and missed."},
		{"jobs.NAME.stagger", "", `"2s"`, "", `The time from the start of one region to the next. "even" spreads the regions over the period.`},
		{"jobs.NAME.parallel", "whole number of passes, 1 to 10000", `2`, "", "How many regions may run at once, if one takes longer than the stagger."},
		{"jobs.NAME.run_at_start", "", `true`, "false", "Run once when quotad starts, unless the latest slot has had a run. Then the schedule holds."},
		{"jobs.NAME.missed", "", `"skip"`, "", `What to do after a downtime. "once": one run for all slots that were missed. "skip": none.`},
		{"jobs.NAME.missed_within", "", `"2h"`, "the time between two slots, at most 24h", `How old the last missed slot may be for that run. It works only with missed = "once".`},
		{"jobs.NAME.max_wait", "duration, at most the time between two slots", `"30s"`, "1m, or the time between two slots if that is shorter", "How long a run waits for a limit that comes back, such as one per minute. Then the run ends."},
		{"jobs.NAME.expects", "table: an operation and its calls, 1 or more", `{ "videos.list" = 4 }`, "quotad starts every pass", "What a pass usually calls. quotad starts no pass that cannot be paid for, and plans with these numbers."},
		{"jobs.NAME.use_reserve", "", `true`, "false", "The job may spend the reserve, too."},
		{"jobs.NAME.units_per_run", "whole number of units, 1 or more", `400`, "as much as the limits allow", "A run that has spent this much ends. The next one continues after it."},
		{"jobs.NAME.exhausted_exit_codes", "array of exit codes, 1 to 255", `[75, 100]`, "[75]", "The exit codes by which the command says that the budget was gone. They are no failure."},
		{"jobs.NAME.expect_success", "duration, at least the time between two slots", `"26h"`, "the job is never overdue", "If the job has no good run for so long, quotad reports it as overdue, by the event overdue_began and in quotactl status."},
		{"jobs.NAME.retry", "whole number of times, 0 to 10", `1`, "0", "How often quotad runs the failed regions again at the end of the run."},
		{"jobs.NAME.on_failure", "", `"stop"`, "", `"continue": a region that fails has had its turn, and the run continues. "stop" ends the run.`},
		{"jobs.NAME.command", "", `["ytfetch", "trending"]`, required, "The program and its arguments. quotad looks it up in its own directory, then in PATH. No shell reads it."},
		{"jobs.NAME.dir", "", `"/srv/trending"`, "data/NAME in state_dir, which quotad makes", "The working directory of the command. It must be there."},
		{"jobs.NAME.env_file", "", `"youtube.env"`, "none", "A file of variables for the command, NAME=value on each line. quotad refuses a file that everybody may read, and keeps values of 8 or more characters out of logs."},
		{"jobs.NAME.env", "table: a variable and its value", `{ LANG = "C.UTF-8" }`, "none", "Variables for the command that are no secret. They override env_file. Names that begin with QUOTAD_ are quotad's own."},
		{"jobs.NAME.timeout", "duration, 1s or more", `"2m"`, "", "How long the pass of one region may take. Then quotad sends TERM, and KILL after kill_grace."},
		{"jobs.NAME.kill_grace", "", `"5s"`, "", "How long a pass has from TERM to KILL."},

		{"clients.NAME", "", "", "", "The clients of an API of your own, each of which has limits to itself. Your server names a client by POST /v1/clients/NAME/acquire."},
		{"clients.NAME.units", "whole number of units, 1 to 4294967295; with algorithm log at most 100000", `60`, required + ", unless limits is there", "What each client may spend in a window."},
		{"clients.NAME.window", "duration of whole seconds, 1s to 366d", `"1m"`, required + ", unless limits is there", "The sliding window of units."},
		{"clients.NAME.enforce", "", `false`, "", "false: a dry run. What the limit would deny is granted and counted."},
		{"clients.NAME.algorithm", "", `"counter"`, "", `"log" is exact and keeps every grant in memory. "counter" keeps two sums for each limit.`},
		{"clients.NAME.subjects", "", `"plain"`, "", `"digest" keeps a digest of each client's name, so that a reader of the ledger learns none. "plain" keeps the names as they are.`},
		{"clients.NAME.operations", "table: an operation and its units, 1 or more", `{ search = 10 }`, "every call costs 1 unit", "What a call costs that names an operation. Calls that name none cost 1 unit."},
		{"clients.NAME.on_outage", "", `"closed"`, "", "What quotad does while it cannot reach the ledger: grant every call, or refuse it."},

		{"clients.NAME.limits.NAME", "", "", "", "Several limits, at most 8, instead of units and window. All of them must have room."},
		{"clients.NAME.limits.NAME.units", "whole number of units, 1 to 4294967295; with algorithm log at most 100000", `1_000`, required, "What each client may spend in the window."},
		{"clients.NAME.limits.NAME.window", "duration of whole seconds, 1s to 366d", `"1d"`, required, "The sliding window of the limit. Each limit has another one."},
		{"clients.NAME.limits.NAME.enforce", "", `false`, "", "false: a dry run. What the limit would deny is granted and counted."},

		{"passes", "", "", "", "What holds for all jobs together. A pass is the run of a command for one region."},
		{"passes.parallel", "whole number of passes, 1 to 10000", `16`, "any number", "How many passes may run at once."},
		{"passes.drain", "", `"1m"`, "", "How long passes may continue when quotad stops. Then quotad sends TERM, and KILL after kill_grace."},
		{"passes.cgroups", `"auto", "off", or a directory of cgroup v2`, `"off"`, "", `Each pass gets a cgroup of its own, so that none of its processes outlives it. "auto" uses what systemd delegates.`},
		{"passes.user", "", `"quotad-jobs"`, "quotad-jobs under systemd/quotad.service, else the user that quotad runs as", "The user that passes run as. quotad must be root, or run by systemd/quotad.service."},

		{"access", "", "", "", "Who may operate quotad, and how many may connect."},
		{"access.admin_group", "", `"operators"`, `"quotad-admin"`, "The group whose members may do what root may."},
		{"access.connections", "whole number of connections, 1 to 100000", `2_048`, "", "How many connections there may be at once, of all users but root and quotad's own. One more is refused."},
		{"access.connections_per_user", "whole number of connections, 1 to connections", `64`, "", "How many of these one user may have, so that a flood of one user leaves room for others."},

		{"metrics", "", "", "", "Prometheus reads GET /metrics over the socket, and at this address if there is one."},
		{"metrics.listen", "", `"127.0.0.1:9464"`, "the socket only", "An address that serves /metrics, /healthz and /readyz, and nothing else."},

		{"proxy", "", "", "", "The proxy through which jobs call an upstream that know nothing of quotad. See [credentials.NAME.proxy]."},
		{"proxy.listen", "", `"127.0.0.1:9465"`, "no proxy", "The address of the proxy. A pass finds its own URL, with its run token, in QUOTAD_PROXY."},

		{"remote", "", "", "", "Callers on hosts without a quotad: the same API over TLS, by a token."},
		{"remote.listen", "", `":9466"`, "no remote callers", "The address and port for remote callers. Without TLS it is a loopback address."},
		{"remote.cert_file", "path of a file", `"fullchain.pem"`, "no TLS: then behind is required", "The certificate, in PEM form, with the intermediate ones. quotad reads it again when the file changes."},
		{"remote.key_file", "path of a file", `"privkey.pem"`, "no TLS: then behind is required", "The key of cert_file, in PEM form. Close it to others: chmod 640."},
		{"remote.behind", "IP address", `"127.0.0.1"`, "no proxy", "The address of a proxy in front of quotad. quotad takes the caller's address from its X-Forwarded-For, and from no other header or host."},

		{"remote.callers.NAME", "", "", "", "A remote caller. The log shows it as remote/NAME."},
		{"remote.callers.NAME.token_file", "path of a file", `"shop.token"`, required, "The file that holds the token: 32 bytes or more, as openssl rand -hex 32 prints them. A second line is a second token, while you replace the first. Close it to others: chmod 640."},
		{"remote.callers.NAME.credentials", "array of credentials", `["youtube"]`, required, "The credentials that the caller may read and acquire from."},
		{"remote.callers.NAME.operations", "array of operations", `["videos.list"]`, "all of those credentials", "The operations that the caller may acquire."},
		{"remote.callers.NAME.subjects", "array of groups", `["public"]`, "none", "The groups of [clients] that the caller may ask about."},

		{"on_event", "", "", "", "Commands that quotad runs on events, each once when the event begins, and again only after it was clearly over. QUOTAD_EVENT and other variables of their environment say what happened."},
		{"on_event.near_limit", "", `["/usr/local/bin/notify"]`, "none", "Jobs have spent 80 % of a limit, then 95 %."},
		{"on_event.exhausted", "", `["/usr/local/bin/notify"]`, "none", "A limit denies."},
		{"on_event.outage_began", "", `["/usr/local/bin/notify"]`, "none", "The ledger does not decide."},
		{"on_event.outage_ended", "", `["/usr/local/bin/notify"]`, "none", "The ledger decides again."},
		{"on_event.job_failing", "", `["/usr/local/bin/notify"]`, "none", "A pass failed, and none failed in the runs before."},
		{"on_event.overdue_began", "", `["/usr/local/bin/notify"]`, "none", "A job has had no good run for its expect_success."},
		{"on_event.overdue_ended", "", `["/usr/local/bin/notify"]`, "none", "The job has had a good run again, or is no longer expected to."},
		{"on_event.run_ended", "", `["/usr/local/bin/notify"]`, "none", "A run ended. This is for each run, also for one that was skipped."},
		{"on_event.limit_closed", "", `["/usr/local/bin/notify"]`, "none", "The upstream says that a limit is exhausted, or an operator closed it."},
		{"on_event.upstream_refuses", "", `["/usr/local/bin/notify"]`, "none", "The upstream wants you to change the key, the quota or the bill."},
		{"on_event.overspent", "", `["/usr/local/bin/notify"]`, "none", "A pass settled a call past what its run or a limit may have."},
		{"on_event.counts_differ", "", `["/usr/local/bin/notify"]`, "none", "The count of the upstream differs from quotad's by more than 5 % of a limit."},
		{"on_event.timeout", "duration, at most 1h", `"10s"`, "", "How long such a command may take. Then quotad kills it."},

		{"log", "", "", "", "What quotad logs to stderr."},
		{"log.level", "", `"debug"`, "", "The least level that is logged."},

		{"window", "", "", "", "A calendar window is a table instead of a duration: window = { calendar = \"day\", timezone = \"America/Los_Angeles\" }. All its units come back when its period begins."},
		{"window.calendar", "", `"day"`, required, "The period."},
		{"window.timezone", "", `"America/Los_Angeles"`, required, "The time zone in which the period begins."},
	}
}
