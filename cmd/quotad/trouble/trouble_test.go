package trouble

//ci:norace

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"quotad/jobs"
	"quotad/quota"
	"quotad/regions"
)

// now is a Thursday.
var now = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

// A world is a daemon in which nothing is wrong: two jobs spend from a day of 10,000 units, of which one has a share
// and a pace.
type world struct {
	State
	youtube *CredentialState
	daily   *LimitState
	share   *LimitState
	pace    *LimitState
	minute  *LimitState
	fetch   *jobs.Status
	fill    *jobs.Status
}

func newWorld() *world {
	limit := func(name string, units quota.Units, window time.Duration, of ...string) LimitState {
		return LimitState{LimitState: quota.LimitState{Limit: quota.Limit{Name: name, Units: units, Window: quota.Sliding(window), Jobs: of}}}
	}
	w := &world{}
	w.State.Ledger.Health = quota.Health{Backend: "redis", State: "ok", Reachable: true}
	w.State.File.Name = "/etc/quotad/config.toml"
	w.State.Disk = DiskState{Dir: "/var/lib/quotad", Free: 50 << 30, Size: 100 << 30}
	limits := []LimitState{limit("daily", 10_000, 24*time.Hour), limit("share", 2_000, 24*time.Hour, "fill"), limit("pace", 500, 6*time.Hour, "fill"), limit("minute", 100, time.Minute)}
	limits[0].Reserve, limits[0].Fits, limits[0].Asks, limits[3].Fits = 500, true, true, true
	c := &quota.Credential{Name: "youtube", Operations: map[string]quota.Cost{"list": {Every: 1}, "search": {Every: 100}}}
	for _, l := range limits {
		c.Limits = append(c.Limits, l.Limit)
	}
	w.Credentials = []CredentialState{{Credential: c, Limits: limits, KeyCure: "replace youtube.key, then quotactl reload"}}
	job := func(name string, expects quota.Units, every time.Duration) jobs.Status {
		return jobs.Status{Name: name, Credential: "youtube", Regions: regions.Ring{"US", "XX", "GB"}, Expects: map[string]quota.Units{"search": expects},
			Next: now.Add(every), Last: &jobs.Run{ID: "1", State: jobs.RunDone, Passes: []jobs.Pass{{Region: "US", Outcome: jobs.OK}}}}
	}
	w.Jobs = []jobs.Status{job("fetch", 3, time.Hour), job("fill", 1, 20*time.Minute)}
	w.youtube, w.fetch, w.fill = &w.Credentials[0], &w.Jobs[0], &w.Jobs[1]
	l := w.youtube.Limits
	w.daily, w.share, w.pace, w.minute = &l[0], &l[1], &l[2], &l[3]
	return w
}

const day = 24 * time.Hour

// spent has a limit used up.
func (l *LimitState) spent() { l.Used = l.Units }

func short(limit string, runs int) *jobs.Shortage {
	return &jobs.Shortage{Since: ago(34 * time.Minute), Runs: runs, Region: "US", Times: runs,
		Stop: jobs.Stop{Limit: limit, RetryAt: now.Add(23*time.Hour + 26*time.Minute)}}
}

// closed has the upstream close a limit that counted some.
func (l *LimitState) closed(used quota.Units, until time.Time) {
	l.Used, l.ClosedAt = used, used
	l.Closed = quota.Closed{Since: ago(time.Minute), Until: until, Says: "you have exceeded your quota.", By: "fetch"}
}

// Each row of the table of troubles, when it is one and when it is not. The line is its kind, whether it is grave ("!"), what
// it is of, what it says, and what to do.
func TestTroubles(t *testing.T) {
	for _, row := range []struct {
		name string
		set  func(w *world)
		want string // empty: nothing needs attention
	}{
		{"nothing", func(*world) {}, ""},
		{"Redis refuses writes", func(w *world) {
			w.State.Ledger.Health = quota.Health{Backend: "redis", State: "youtube: ledger unavailable: OOM command not allowed: raise maxmemory", Reachable: false}
			w.State.Ledger.Down = true
		}, "ledger! ledger: Redis refuses writes (OOM): every call is refused > redis-cli config get maxmemory"},
		{"it cannot be reached", func(w *world) {
			w.State.Ledger.Health = quota.Health{Backend: "redis", State: "youtube: cannot reach redis: dial tcp 10.0.0.7:6379: connect: connection refused"}
		}, "ledger! ledger: Redis cannot be reached: every call is refused: dial tcp 10.0.0.7:6379: connect: connection refused > quotad --check --config /etc/quotad/config.toml"},
		{"the embedded ledger has no room", func(w *world) {
			w.State.Ledger.Health = quota.Health{Backend: "embedded", State: "write ledger/youtube/00000001: no space left on device"}
		}, "ledger! ledger: the ledger cannot be written, because the disk is full: every call is refused > df /var/lib/quotad"},
		{"a log is being put back", func(w *world) {
			w.State.Ledger.Health = quota.Health{Backend: "redis", State: "youtube: it recovers from a loss", Recovering: []string{"youtube"}}
			w.Losses = []Loss{{Credential: "youtube", At: ago(45 * time.Minute)}}
		}, "ledger! credential youtube: Redis lost its data of youtube at 11:15: nothing is granted until it is put back"},
		{"Redis went again while it was put back", func(w *world) {
			w.State.Ledger.Health = quota.Health{Backend: "redis", State: "connection refused"}
			w.State.Ledger.Down = true
			w.Losses = []Loss{{Credential: "youtube", At: ago(45 * time.Minute)}}
		}, "ledger! ledger: Redis does not serve, and every call is refused: connection refused > quotad --check --config /etc/quotad/config.toml" +
			" | ledger! credential youtube: Redis lost its data of youtube at 11:15: nothing is granted until it is put back"},
		{"it was put back, and does not decide yet", func(w *world) {
			w.State.Ledger.Health = quota.Health{Backend: "redis", State: "youtube: ledger unavailable: it recovers from a loss", Recovering: []string{"youtube"}}
			w.State.Ledger.Down = true
			w.Losses = []Loss{{"youtube", ago(5 * time.Second), ago(time.Second), 21}}
		}, "ledger! credential youtube: Redis lost its data of youtube at 11:59: nothing is granted until it is put back"},
		{"it was put back, and another one was not", func(w *world) {
			w.State.Ledger.Health = quota.Health{Backend: "redis", State: "maps: ledger unavailable: it recovers from a loss", Recovering: []string{"maps"}}
			w.Losses = []Loss{{"maps", ago(5 * time.Minute), time.Time{}, 0}, {"youtube", ago(45 * time.Minute), ago(44 * time.Minute), 21}}
		}, "ledger! credential maps: Redis lost its data of maps at 11:55: nothing is granted until it is put back" +
			" | lost credential youtube: Redis lost its data of youtube at 11:15; put back from this host, 21 records"},
		{"it was put back", func(w *world) { w.Losses = []Loss{{"youtube", ago(45 * time.Minute), ago(44 * time.Minute), 21}} },
			"lost credential youtube: Redis lost its data of youtube at 11:15; put back from this host, 21 records"},
		{"more than a day ago", func(w *world) {
			w.Losses = []Loss{{"youtube", ago(26 * time.Hour), ago(25 * time.Hour),
				21}}
		}, ""},
		{"some calls are open", func(w *world) {
			w.State.Ledger.Health, w.State.Ledger.IsOpen = quota.Health{Backend: "redis", State: "EOF"}, true
		}, "ledger! ledger: Redis does not serve, and every call is refused that on_outage does not open: EOF > quotad " +
			"--check --config /etc/quotad/config.toml"},
		{"a disk of which nothing is known", func(w *world) { w.State.Disk.Free, w.State.Disk.Size = 0, 0 }, ""},
		{"little room on the disk", func(w *world) { w.State.Disk.Free = 60 << 20 }, "disk host: the disk of /var/lib/quotad has 60 MB left > df /var/lib/quotad"},
		{"enough", func(w *world) { w.State.Disk.Free = 2200 << 20 }, ""},
		{"not enough to be over", func(w *world) { w.State.Disk.Free, w.State.Disk.WasLow = 2200<<20, true }, "disk host: the disk of /var/lib/quotad has 2,200 MB left > df /var/lib/quotad"},
		{"over", func(w *world) { w.State.Disk.Free, w.State.Disk.WasLow = 3200<<20, true }, ""},
		{"the tables cannot be written", func(w *world) { w.State.Ledger.Unwritten = []string{"the tables cannot be written"} }, "disk! host: the tables cannot be written > df /var/lib/quotad"},
		{"its state cannot be understood", func(w *world) { w.fetch.Aside = "cannot understand fetch.json" },
			"disk job fetch: fetch: cannot understand fetch.json > quotactl jobs fetch"},
		{"two overlaps in a row", func(w *world) { w.fetch.Overlaps = 2 }, ""},
		{"three overlaps in a row", func(w *world) { w.fetch.Overlaps = 3 },
			"failing job fetch: fetch: a run was still under way at 3 slots in a row: give it more time between two, or split the regions over two jobs > quotactl runs fetch"},
		{"records are not on disk", func(w *world) { w.fetch.NotKept = "no space left on device" },
			"disk! job fetch: fetch: a restart would not know what happened: no space left on device > df /var/lib/quotad"},
		{"closed before our own count was used up", func(w *world) {
			w.daily.closed(7_004, now.Add(20*time.Hour))
			w.daily.Size = 6_000
		}, "closed! limit youtube daily: youtube daily is closed until Fri 08:00: at 7,004 of our 10,000; the upstream's limit is 6,000: you have exceeded your quota > quotactl open youtube daily"},
		{"when it was used up", func(w *world) { w.daily.closed(9_500, now.Add(20*time.Hour)) }, ""},
		{"until before the next slot of each job", func(w *world) { w.daily.closed(7_004, now.Add(20*time.Minute)) }, ""},
		{"until after one of them", func(w *world) { w.daily.closed(7_004, now.Add(21*time.Minute)); w.daily.Size = 10_000 },
			"closed! limit youtube daily: youtube daily is closed until 12:21: at 7,004 of our 10,000: you have exceeded your quota > quotactl open youtube daily"},
		{"until after the first of them alone", func(w *world) {
			w.fetch.Next, w.fill.Next = w.fill.Next, w.fetch.Next
			w.daily.closed(7_004, now.Add(21*time.Minute))
		}, "closed! limit youtube daily: youtube daily is closed until 12:21: at 7,004 of our 10,000: you have exceeded your quota > quotactl open youtube daily"},
		{"no job spends from it", func(w *world) { w.daily.closed(7_004, now.Add(2*time.Hour)); w.Jobs = nil },
			"closed limit youtube daily: youtube daily is closed until 14:00: at 7,004 of our 10,000: you have exceeded your quota > quotactl open youtube daily"},
		{"it counts nothing that the jobs expect", func(w *world) {
			w.daily.closed(7_004, now.Add(2*time.Hour))
			w.youtube.Credential.Limits[0].Only = []string{"list"}
		}, "closed limit youtube daily: youtube daily is closed until 14:00: at 7,004 of our 10,000: you have exceeded " +
			"your quota > quotactl open youtube daily"},
		{"for a minute, and no job spends from it", func(w *world) { w.daily.closed(7_004, now.Add(time.Minute)); w.Jobs = nil }, ""},
		{"for hours, and its jobs have no schedule", func(w *world) {
			w.daily.closed(7_004, now.Add(2*time.Hour))
			w.fetch.Next, w.fill.Next = time.Time{}, time.Time{}
		}, "closed! limit youtube daily: youtube daily is closed until 14:00: at 7,004 of our 10,000: " +
			"you have exceeded your quota > quotactl open youtube daily"},
		{"for a minute, and its jobs have no schedule", func(w *world) {
			w.daily.closed(7_004, now.Add(time.Minute))
			w.fetch.Next, w.fill.Next = time.Time{}, time.Time{}
		}, ""},
		{"by an operator", func(w *world) { w.daily.closed(7_004, now.Add(20*time.Hour)); w.daily.ByHand = true }, ""},
		{"a project is suspended", func(w *world) {
			w.youtube.Refuses = &Refusal{ago(time.Hour), "Consumer 'api_key:AIza' has been suspended."}
		},
			"key! credential youtube: youtube is refused: Consumer 'api_key:AIza' has been suspended > ask the upstream's provider"},
		{"a key is refused", func(w *world) { w.youtube.Refuses = &Refusal{ago(time.Hour), "API_KEY_INVALID"} },
			"key! credential youtube: youtube's key is refused: API_KEY_INVALID > replace youtube.key, then quotactl reload"},
		{"a key_command fails", func(w *world) { w.youtube.Keyless = &Keyless{Since: ago(time.Hour), Says: "vault: sealed"} },
			"key credential youtube: youtube's key_command fails, its last key still serves: vault: sealed > quotactl reload"},
		{"and the last key ends", func(w *world) {
			w.youtube.Keyless = &Keyless{Since: ago(time.Hour), Says: "vault: sealed", Ends: now.Add(time.Hour)}
		}, "key credential youtube: youtube's key_command fails, its last key serves until 13:00: vault: sealed > quotactl reload"},
		{"and the last key ends within the hour", func(w *world) {
			w.youtube.Keyless = &Keyless{Since: ago(time.Hour), Says: "vault: sealed", Ends: now.Add(time.Hour - 1)}
		}, "key! credential youtube: youtube's key_command fails, its last key serves until 12:59: vault: sealed > " +
			"quotactl reload"},
		{"and the last key has ended", func(w *world) {
			w.youtube.Keyless = &Keyless{Since: ago(time.Hour), Says: "vault: sealed", Ends: ago(time.Minute), Over: true}
		}, "key! credential youtube: youtube has no key: its key_command fails: vault: sealed > quotactl reload"},
		{"no answer of late", func(w *world) {
			w.youtube.Silent = &Refusal{ago(time.Minute), "no answer from www.googleapis.com: no such host"}
		}, "unreachable credential youtube: no answer from www.googleapis.com: no such host"},
		{"for longer", func(w *world) {
			w.youtube.Silent = &Refusal{ago(6 * time.Minute), "no answer from www.googleapis.com: no such host"}
		}, "unreachable! credential youtube: no answer from www.googleapis.com: no such host"},
		{"not launched in two slots", func(w *world) { w.daily.Used, w.fetch.Short = 9_400, short("daily", 2) },
			"starved! job fetch: fetch: 300 needed, 100 left of youtube daily; fits Fri 11:26 > quotactl plan"},
		{"for a day, beside a month that is not enforced", func(w *world) {
			w.pace.Window, w.pace.DryRun, w.daily.Asks = quota.Sliding(30*day), true, false
			w.daily.Used, w.fetch.Short = 9_400, short("daily", 2)
		}, "starved! job fetch: fetch: 300 needed, 100 left of youtube daily; fits Fri 11:26 > quotactl plan"},
		{"for a day, beside a month", func(w *world) {
			w.pace.Window, w.daily.Asks = quota.Sliding(30*day), false
			w.daily.Used, w.fetch.Short = 9_400, short("daily", 2)
		}, ""},
		{"in one", func(w *world) { w.daily.Used, w.fetch.Short = 9_400, short("daily", 1) }, ""},
		{"one region three times", func(w *world) {
			w.daily.Used, w.fetch.Short = 9_400, short("daily", 0)
			w.fetch.Short.Times = 3
		}, "starved! job fetch: fetch: US: 300 needed, 100 left of youtube daily; fits Fri 11:26 > quotactl plan"},
		{"one region twice", func(w *world) {
			w.daily.Used, w.fetch.Short = 9_400, short("daily", 0)
			w.fetch.Short.Times = 2
		}, ""},
		{"by now there is room", func(w *world) { w.daily.Used, w.fetch.Short = 9_200, short("daily", 5) }, ""},
		{"with the reserve", func(w *world) { w.daily.Used, w.fetch.Short, w.fetch.UseReserve = 9_400, short("daily", 5), true }, ""},
		{"a job that does not say what it needs", func(w *world) { w.daily.Used, w.fetch.Short, w.fetch.Expects = 9_450, short("daily", 2), nil },
			"starved! job fetch: fetch: 50 left of youtube daily; fits Fri 11:26 > quotactl plan"},
		{"but whose call was denied", func(w *world) {
			w.daily.Used, w.fetch.Short, w.fetch.Expects = 9_450, short("daily", 2), nil
			w.fetch.Short.Needs = 100
		}, "starved! job fetch: fetch: 100 needed, 50 left of youtube daily; fits Fri 11:26 > quotactl plan"},
		{"and the limit was raised since", func(w *world) {
			w.daily.Used, w.fetch.Short, w.fetch.Expects = 9_450, short("daily", 2), nil
			w.daily.Units, w.fetch.Short.Needs = 20_000, 100
		}, ""},
		{"and what it needed is back", func(w *world) {
			w.fetch.Short, w.fetch.Expects = short("daily", 2), nil
			w.fetch.Short.RetryAt = ago(time.Second)
		}, ""},
		{"a pace, though it is scheduled for more", func(w *world) { w.pace.spent(); w.fill.Short = short("pace", 12) }, ""},
		{"a share, though it is scheduled for more", func(w *world) { w.share.spent(); w.fill.Short = short("share", 50) }, ""},
		{"a share that others of it have spent", func(w *world) {
			w.share.spent()
			w.share.Fits, w.share.Asks = true, true
			w.fill.Short = short("share", 2)
		}, "starved! job fill: fill: 100 needed, 0 left of youtube share; fits Fri 11:26 > quotactl plan"},
		{"a limit that is closed by hand", func(w *world) {
			w.daily.closed(0, now.Add(day))
			w.daily.ByHand, w.fetch.Short = true, short("daily", 5)
		}, ""},
		{"a limit that was used up, and then the upstream closed it", func(w *world) {
			w.daily.closed(9_500, now.Add(20*time.Hour))
			w.fetch.Short = short("daily", 2)
		}, "starved! job fetch: fetch: 300 needed, 0 left of youtube daily; fits Fri 11:26 > quotactl plan"},
		{"a limit that is not enforced any more", func(w *world) { w.daily.spent(); w.daily.DryRun, w.fetch.Short = true, short("daily", 5) }, ""},
		{"nothing says which limit", func(w *world) {
			w.fetch.Short = &jobs.Shortage{Since: ago(time.Hour), Runs: 2, Stop: jobs.Stop{Detail: "exit status 75, without a denial"}}
		}, "starved! job fetch: fetch is not run for want of units: exit status 75, without a denial > quotactl jobs fetch"},
		{"runs dry by a loop", func(w *world) {
			w.daily.GoneAt, w.daily.Spender, w.daily.Rate = now.Add(10*time.Minute), "loop", 720_000
			w.Jobs = append(w.Jobs, jobs.Status{Name: "loop", Credential: "youtube", Last: &jobs.Run{State: jobs.RunRunning}})
		}, "dry! limit youtube daily: youtube daily is used up at about 12:10: loop spends 200 a second > quotactl stop loop"},
		{"by a user", func(w *world) {
			w.daily.GoneAt, w.daily.Spender, w.daily.Rate = now.Add(time.Hour), "root", 1_200
		}, "dry! limit youtube daily: youtube daily is used up at about 13:00: root spends 20 a minute > quotactl usage youtube"},
		{"not within the hour", func(w *world) { w.daily.GoneAt, w.daily.Spender, w.daily.Rate = now.Add(time.Hour+1), "root", 1_200 }, ""},
		{"by its own schedule", func(w *world) { w.daily.GoneAt, w.daily.Fits = now.Add(time.Hour), false }, ""},
		{"and no job comes", func(w *world) {
			w.daily.GoneAt = now.Add(time.Hour)
			w.fetch.Next, w.fill.Next = time.Time{}, time.Time{}
		}, ""},
		{"and the jobs that come are paused, or spend it", func(w *world) {
			w.daily.GoneAt, w.daily.Spender, w.fill.Pause = now.Add(time.Hour), "fetch", &jobs.Pause{}
		}, ""},
		{"and is used up", func(w *world) {
			w.daily.Used, w.daily.GoneAt, w.daily.Spender, w.daily.Rate = 9_500, now, "root", 120
		}, "dry! limit youtube daily: youtube daily is used up, though its jobs have room in it: root spends 120 an hour " +
			"> quotactl usage youtube"},
		{"a day that is used up, without a job that lacks it", func(w *world) { w.daily.Used = 9_500 }, ""},
		{"a region fails", func(w *world) {
			w.fetch.Failing = []jobs.Failing{{Region: "XX", Since: ago(51 * time.Hour), Times: 12, Cause: "HTTP Error 400"}}
			w.fetch.Last = &jobs.Run{State: jobs.RunStopped, Stop: jobs.Stop{Reason: jobs.DoesNotFit}, Passes: []jobs.Pass{{Region: "US", Outcome: jobs.OK}}}
		}, "failing job fetch: fetch: XX fails since Tue 09:00 (12 times): HTTP Error 400 > quotactl runs fetch"},
		{"and was not tried", func(w *world) {
			w.fetch.Failing = []jobs.Failing{{Region: "XX", Since: ago(51 * time.Hour), Times: 12}}
			w.fetch.Last = &jobs.Run{State: jobs.RunStopped, Stop: jobs.Stop{Reason: jobs.DoesNotFit}}
		}, "failing job fetch: fetch: XX fails since Tue 09:00 (12 times) > quotactl runs fetch"},
		{"another one fails since later", func(w *world) {
			w.fetch.Failing = []jobs.Failing{
				{Region: "GB", Since: ago(time.Hour), Times: 1, Cause: "exit status 3"},
				{Region: "XX", Since: ago(51 * time.Hour), Times: 12, Cause: "HTTP Error 400"},
			}
		}, "failing job fetch: fetch: GB, XX fail since Tue 09:00 (12 times): HTTP Error 400 > quotactl runs fetch"},
		{"as many as are known to, and one is well", func(w *world) {
			for i := range jobs.MaxFailing {
				one := jobs.Failing{Region: regions.Region(fmt.Sprint("R", i)), Since: ago(time.Minute), Times: 1}
				w.fetch.Failing = append(w.fetch.Failing, one)
			}
		}, "failing job fetch: fetch: R0, R1 and 98 more fail since 11:59 > quotactl runs fetch"},
		{"all of them", func(w *world) {
			w.fetch.Last = nil
			for _, r := range w.fetch.Regions {
				w.fetch.Failing = append(w.fetch.Failing, jobs.Failing{Region: r, Since: ago(time.Minute), Times: 1, Cause: "exit status 3"})
			}
		}, "failing! job fetch: fetch: US, XX and 1 more fail since 11:59: exit status 3 > quotactl runs fetch"},
		{"no good run", func(w *world) { w.fetch.Due = now }, "failing! job fetch: fetch: no run has ended well: one was due 12:00 > quotactl runs fetch"},
		{"not yet", func(w *world) { w.fetch.Due = now.Add(1) }, ""},
		{"no call is counted", func(w *world) { w.Idle = map[string]int{"fetch": 5} },
			"uncounted job fetch: fetch: 5 runs ok, no call counted: does it ask quotad before each call? > quotactl runs fetch"},
		{"through the proxy", func(w *world) { w.Idle, w.fetch.Expects, w.youtube.Proxied = map[string]int{"fetch": 1}, nil, true },
			"uncounted job fetch: fetch: 1 run ok, no call counted: does it use $QUOTAD_PROXY? > quotactl runs fetch"},
		{"it says nothing of calls", func(w *world) { w.Idle, w.fetch.Expects = map[string]int{"fetch": 5}, nil }, ""},
		{"it says that it makes none", func(w *world) {
			w.Idle, w.fetch.Expects, w.youtube.Proxied = map[string]int{"fetch": 5}, map[string]quota.Units{}, true
		}, ""},
		{"quotad was killed", func(w *world) { w.Kills = []time.Time{ago(time.Hour)} }, ""},
		{"again and again", func(w *world) { w.Kills = []time.Time{ago(time.Hour), ago(time.Minute)} },
			"server host: quotad was killed 2 times since 11:00 > journalctl -u quotad -n 50"},
		{"the day before", func(w *world) { w.Kills = []time.Time{ago(26 * time.Hour), ago(25 * time.Hour)} }, ""},
		{"not loaded", func(w *world) { w.State.File.Error, w.State.File.FailedAt = "line 3: unknown key", ago(time.Minute) },
			"file /etc/quotad/config.toml: /etc/quotad/config.toml was not loaded, and the former configuration runs: line 3: unknown key > quotactl reload"},
		{"newer than what runs", func(w *world) { w.State.File.ChangedAt = ago(time.Minute) },
			"file /etc/quotad/config.toml: /etc/quotad/config.toml is newer than what runs > quotactl reload"},
		{"hosts count differently", func(w *world) { w.State.Ledger.Hosts = []string{"youtube: host b counts differently"} }, "hosts ledger: youtube: host b counts differently"},
		{"hosts schedule differently", func(w *world) { w.fetch.Hosts = "host b has another schedule" }, "hosts! job fetch: fetch: host b has another schedule > quotactl jobs fetch"},
		{"a log is ahead of the clock", func(w *world) { w.State.Ledger.Clock = []string{"youtube is 2h ahead"} }, "server! ledger: youtube is 2h ahead > timedatectl"},
		{"the clock was set back", func(w *world) { w.ClockWas, w.ClockBy = now.Add(40*time.Minute), time.Hour },
			"server host: the clock was set back by 1h; slots until 12:40 are run as they come > timedatectl"},
		{"and those have come", func(w *world) { w.ClockWas, w.ClockBy = now, time.Hour }, ""},
		{"Redis may lose grants", func(w *world) { w.State.Ledger.Warnings = []string{"appendonly is no", "min-replicas-to-write is 0"} },
			"server ledger: appendonly is no; min-replicas-to-write is 0 > quotad --check --config /etc/quotad/config.toml"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld()
			row.set(w)
			if got := written(List(w.State, now)); got != row.want {
				t.Errorf("got\n%s\nwant\n%s", got, row.want)
			}
		})
	}
}

func written(list []Trouble) string {
	var lines []string
	for _, one := range list {
		text := string(one.Kind) + map[bool]string{true: "!"}[one.Grave] + " " + one.Of + ": " + one.Says
		if one.Do != "" {
			text += " > " + one.Do
		}
		lines = append(lines, text)
	}
	return strings.Join(lines, " | ")
}

// A trouble is as old as what it is about.
func TestSinceWhen(t *testing.T) {
	since := ago(34 * time.Minute)
	for kind, set := range map[Kind]func(w *world){
		Closed:      func(w *world) { w.daily.closed(7_004, now.Add(day)); w.daily.Closed.Since = since },
		Failing:     func(w *world) { w.fetch.Failing = []jobs.Failing{{Region: "XX", Since: since}} },
		File:        func(w *world) { w.State.File.ChangedAt = since },
		Key:         func(w *world) { w.youtube.Refuses = &Refusal{Since: since} },
		Lost:        func(w *world) { w.Losses = []Loss{{"youtube", since, now, 1}} },
		Server:      func(w *world) { w.Kills = []time.Time{since, now} },
		Starved:     func(w *world) { w.daily.Used, w.fetch.Short = 9_400, short("daily", 2) },
		Unreachable: func(w *world) { w.youtube.Silent = &Refusal{Since: since} },
	} {
		w := newWorld()
		set(w)
		if list := List(w.State, now); len(list) != 1 || list[0].Kind != kind || !list[0].Since.Equal(since) {
			t.Errorf("%s: got %+v, want it since %v", kind, list, since)
		}
	}
}

// A time is written so that it means no other one.
func TestAt(t *testing.T) {
	for _, row := range []struct {
		in   time.Duration
		want string
	}{
		{11 * time.Hour, "23:00"}, {12 * time.Hour, "Fri 00:00"}, {-13 * time.Hour, "Wed 23:00"},
		{5 * day, "Tue 12:00"}, {7 * day, "3 Dec 12:00"}, {-7 * day, "19 Nov 12:00"},
		{299 * day, "21 Sep 12:00"}, {365 * day, "2027-11-26"},
	} {
		if got := At(now.Add(row.in), now); got != row.want {
			t.Errorf("%v from now: got %s, want %s", row.in, got, row.want)
		}
	}
	if got := At(now, now.In(time.FixedZone("east", 3600))); got != "13:00" {
		t.Errorf("east of here: got %s", got)
	}
}

// Everything is wrong at once: each kind is listed, the grave ones first, and the first of them is what a status says.
func TestEverythingIsWrong(t *testing.T) {
	w := newWorld()
	w.State.Ledger.Health = quota.Health{Backend: "redis", State: "OOM", Warnings: []string{"w"}, Hosts: []string{"h"}, Clock: []string{"c"}}
	w.State.Ledger.Down = true
	w.Losses = []Loss{{Credential: "youtube", At: ago(time.Hour)}, {"maps", ago(time.Hour), ago(time.Hour), 1}}
	w.State.Disk.Free, w.State.File.Error, w.Idle = 0, "e", map[string]int{"fetch": 1}
	w.youtube.Refuses, w.youtube.Silent = &Refusal{}, &Refusal{}
	w.daily.closed(1, now.Add(day))
	w.minute.GoneAt, w.minute.Asks = now, true
	w.pace.Fits, w.pace.Asks = true, true
	w.pace.spent()
	w.fill.Short, w.fill.Failing, w.fill.Due = short("pace", 2), []jobs.Failing{{Region: "US"}}, now
	w.fetch.NotKept = "n"
	list := List(w.State, now)
	var missing []Kind
	for _, kind := range Kinds {
		if !slices.ContainsFunc(list, func(one Trouble) bool { return one.Kind == kind }) {
			missing = append(missing, kind)
		}
	}
	if len(missing) > 0 {
		t.Errorf("%q are not told of: %s", missing, written(list))
	}
	for _, one := range list {
		if !slices.Contains(Kinds[:], one.Kind) {
			t.Errorf("%s has no place in the table", one.Kind)
		}
	}
	if first := First(list); first != "Redis refuses writes (OOM): every call is refused" || First(nil) != Nothing {
		t.Errorf("the first is %q", first)
	}
	if !slices.IsSortedFunc(list, func(a, b Trouble) int { return map[bool]int{true: -1}[a.Grave] - map[bool]int{true: -1}[b.Grave] }) {
		t.Errorf("the grave ones are not first: %s", written(list))
	}
}

// What upstreams and scripts write is shown on one line, and bounded.
func TestForeignTexts(t *testing.T) {
	w := newWorld()
	text := "\x1b[31mred\u202e\n<b>bold</b> \x00\xff" + strings.Repeat("東", 64<<10)
	w.daily.closed(1, now.Add(day))
	w.daily.Closed.Says = text
	w.youtube.Refuses, w.youtube.Silent = &Refusal{Says: text}, &Refusal{Says: text}
	w.fetch.Failing = []jobs.Failing{{Region: regions.Region(text), Cause: text}}
	for _, one := range List(w.State, now) {
		if len(one.Says) > maxSays+len("…") || strings.ContainsAny(one.Says, "\x1b\u202e\n\x00") || !utf8.ValidString(one.Says) || !strings.Contains(one.Says, "red") {
			t.Errorf("%s says %q", one.Kind, one.Says)
		}
	}
}
