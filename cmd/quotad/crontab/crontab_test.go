package crontab

//ci:norace

import (
	"reflect"
	"testing"
)

func TestParse(t *testing.T) {
	jobs, notes := Parse(`# of the feeds
MAILTO=ops@example.org
PATH = "/usr/local/bin:/usr/bin:/bin"
SHELL=/bin/bash
*/30	* * * *   cd /srv/feeds && ./fetch-us.sh >> log 2>&1
0 5 * * 1-5 flock -n /tmp/x.lock /srv/feeds/fetch-us.sh GB
@daily /usr/bin/python3 /srv/rank.py --day $(date +\%F)
CRON_TZ=Europe/Berlin
@reboot /srv/server
15 4 1 * * mail -s 'all done' me%well%done
@midnight nice -n 5 curl -fsS "https://example.org/?a=1"
* * * *
nonsense
`, func(string) bool { return false })
	path := map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin"}
	want := []Job{
		{Line: 5, Name: "fetch-us", Schedule: "*/30 * * * *", Shell: "/bin/bash", Command: "cd /srv/feeds && ./fetch-us.sh >> log 2>&1", Env: path},
		{Line: 6, Name: "fetch-us-2", Schedule: "0 5 * * 1-5", Shell: "/bin/bash", Command: "flock -n /tmp/x.lock /srv/feeds/fetch-us.sh GB", Env: path},
		{Line: 7, Name: "rank", Schedule: "@daily", Shell: "/bin/bash", Command: "/usr/bin/python3 /srv/rank.py --day $(date +%F)", Env: path},
		{Line: 10, Name: "mail", Schedule: "15 4 1 * *", Shell: "/bin/bash", Zone: "Europe/Berlin", Env: path,
			Command: "{ mail -s 'all done' me\n} <<'END'\nwell\ndone\nEND"},
		{Line: 11, Name: "curl", Schedule: "@daily", Shell: "/bin/bash", Zone: "Europe/Berlin", Command: `nice -n 5 curl -fsS "https://example.org/?a=1"`, Env: path},
	}
	for i := range max(len(jobs), len(want)) {
		if i >= len(jobs) || i >= len(want) || !reflect.DeepEqual(jobs[i], want[i]) {
			t.Fatalf("job %d: got %+v, want %+v", i, jobs[min(i, len(jobs)-1):], want[min(i, len(want)-1):])
		}
	}
	if len(notes) != 4 || notes[0].Line != 2 || notes[1].Line != 9 || notes[2].Line != 12 || notes[3].Line != 13 {
		t.Errorf("notes: %+v", notes)
	}
}

// The sixth column of /etc/crontab is a user.
func TestParseUsers(t *testing.T) {
	isUser := func(name string) bool { return name == "root" || name == "feeds" }
	jobs, _ := Parse("17 * * * * root cd / && run-parts /etc/cron.hourly\n@daily feeds /srv/rank.sh\n", isUser)
	if len(jobs) != 2 || jobs[0].User != "root" || jobs[0].Name != "run-parts" || jobs[1].User != "feeds" || jobs[1].Command != "/srv/rank.sh" {
		t.Errorf("got %+v", jobs)
	}
	jobs, _ = Parse("17 * * * * root /x\n@daily /srv/rank.sh\n", isUser)
	if len(jobs) != 2 || jobs[0].User != "" || jobs[0].Command != "root /x" {
		t.Errorf("one line has no user: got %+v", jobs)
	}
}
