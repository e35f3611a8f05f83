package page_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	jobsapi "quotad/jobs/api"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/redisledger/redistest"
)

// crowdedDay has eight credentials and twenty jobs.
func crowdedDay() plannedDay {
	var config strings.Builder
	credentials := []string{"youtube", "youtube-dev", "maps", "crm", "weather", "github", "geo", "shop"}
	for i, name := range credentials {
		fmt.Fprintf(&config, "[credentials.%s]\nlimits.daily = { units = 10_000, reserve = 500 }\noperations.list = 1\noperations.search = 100\n", name)
		if i%2 == 0 {
			fmt.Fprintf(&config, "limits.search = { units = 4_000, only = [\"search\"] }\n")
		}
	}
	for i, name := range []string{
		"trending", "charts", "captions", "channels", "discover", "comments", "geocode", "routes", "tiles", "contacts",
		"deals", "forecast", "alerts", "issues", "releases", "places", "borders", "orders", "stock", "prices",
	} {
		items, list, command := []string{"US", "GB", "DE", "FR"}, 5+i, "true"
		switch name {
		case "alerts", "deals", "issues":
			command = "false"
		case "charts": // what is left never fits
			list = 9_400
		case "captions":
			items = nil
			for r := range 40 {
				items = append(items, fmt.Sprintf("item %d", r))
			}
		}
		fmt.Fprintf(&config, "[jobs.%s]\ncredential = %q\nitems = [\"%s\"]\nevery = \"%dh\"\nstagger = \"0s\"\nexpects.list = %d\ncommand = [%q]\n",
			name, credentials[i%len(credentials)], strings.Join(items, `", "`), 1+i%4, list, command)
	}
	return plannedDay{config: config.String(), failures: 400, byHand: quota.Request{Credential: "youtube", Operation: "list", Count: 40}}
}

// TestACrowdedPage shows eight credentials and twenty jobs, some of them in trouble, and then
// Redis away: the page stays below 2,000 pixels, says first what is wrong, and leads there.
func TestACrowdedPage(t *testing.T) {
	if os.Getenv("QUOTAD_TEST_BROWSER") == "" {
		t.Skip("QUOTAD_TEST_BROWSER=1 asks for it; it needs chromium")
	}
	d := newDaemon(t, crowdedDay())
	d.start()
	client := jobsapi.Client{Client: &api.Client{Socket: d.socket}}
	crowdedTrouble(t, d, client)
	b := openBrowser(t)
	b.navigate(d.page())
	b.await(`Number(document.querySelector('.says').dataset.troubles) >= 6`)
	b.views(t, func(view string) {
		if !b.is(`document.documentElement.scrollWidth <= innerWidth`) {
			t.Errorf("%s: the page is wider than its window", view)
		}
		if height := `document.documentElement.scrollHeight <= 2000`; strings.HasPrefix(view, "1280") && !b.is(height) {
			t.Errorf("%s: not %s", view, height)
		}
		b.save(t, "crowded-"+view)
	})
	t.Run("a trouble leads to its row", func(t *testing.T) {
		for _, claim := range []string{
			`[...document.querySelectorAll('#jobs .row')].slice(0, 2).every(row => row.dataset.tone)`,
			`[...document.querySelectorAll('#limits .row')][0].dataset.tone`,
			`[...document.querySelectorAll('#triage a')].every(a => document.getElementById(a.hash.slice(1)))`,
			`document.querySelector('#triage a[href="#limit-youtube-daily"]').click() || document.getElementById('limit-youtube-daily').open`,
			`location.hash === '#limit-youtube-daily'`,
		} {
			if !b.is(claim) {
				t.Errorf("not %s", claim)
			}
		}
	})
	b.is(`document.getElementById('job-deals').open = document.getElementById('runs-of-the-day').open = true`)
	b.show(t, [2]int64{1280, 800}, "light")
	b.save(t, "crowded-open")
	t.Run("a legend explains what is shown", func(t *testing.T) {
		const explained = `[...document.querySelectorAll('#jobs > .runs li')].filter(li => getComputedStyle(li).display !== 'none').map(li => li.className).join()`
		const shown = `['good', 'bad', 'warn', 'plain', 'gap'].filter(c => document.querySelector('#jobs .ticks .' + c)).join()`
		if explained, shown := b.text(explained), b.text(shown); explained != shown || !strings.Contains(shown, "bad") || strings.Contains(shown, "gap") {
			t.Errorf("%s explained, %s shown", explained, shown)
		}
	})
	t.Run("the filter hides what is called otherwise", func(t *testing.T) {
		const shown = `[...document.querySelectorAll('#jobs .row')].filter(row => !row.hidden).map(row => row.dataset.job).join()`
		if !b.is(`(filter.value = 'geo') && filter.dispatchEvent(new Event('input')) && ` + shown + ` === 'geocode,releases'`) { // of credential geo, too
			t.Errorf("shown: %s", b.text(shown))
		}
		b.is(`(filter.value = '') || filter.dispatchEvent(new Event('input'))`)
	})
	t.Run("a click copies a command", func(t *testing.T) {
		b.is(`Object.defineProperty(navigator, 'clipboard', {value: {writeText: async (text) => { window.copied = text; }}})`)
		b.is(`document.querySelector('#triage .command').click()`)
		b.await(`window.copied === document.querySelector('#triage .command').textContent && document.querySelector('.command[data-copied]')`)
	})
	for _, complaint := range b.complaints() {
		t.Errorf("the browser complains: %s", complaint)
	}
}

// text returns the text that an expression is.
func (b *browser) text(expression string) string {
	b.t.Helper()
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](expression))
	if err != nil {
		b.t.Fatal(err)
	}
	return text
}

// crowdedTrouble makes trouble of six kinds.
func crowdedTrouble(t *testing.T, d *busyDaemon, client jobsapi.Client) {
	t.Helper()
	says := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := client.Observe(t.Context(), api.Observation{Credential: "youtube", Operation: "list", Status: 403, Body: `{"error":{"code":403,"message":"You have exceeded your <a href=\"/quota\">quota</a>.","errors":[{"reason":"quotaExceeded"}]}}`})
	says(err)
	_, err = client.Observe(t.Context(), api.Observation{Credential: "crm", Operation: "list", Status: 400, Body: `{"error":{"code":400,"status":"INVALID_ARGUMENT","errors":[{"reason":"badRequest"}],"message":"API key not valid. Please pass a valid API key.","details":[{"reason":"API_KEY_INVALID"}]}}`})
	says(err)
	for _, job := range []string{"alerts", "deals", "issues"} {
		client.Begin(t.Context(), job, jobsapi.RunRequest{}) // unless a missed slot was made up for
	}
	file := d.dir + "/config.toml"
	text, err := os.ReadFile(file)
	says(err)
	says(os.WriteFile(file, append(text, "[jobs.]\n"...), 0o644))
	client.Reload(t.Context())
}

// TestThePageWithoutRedis shows figures that are old as old.
func TestThePageWithoutRedis(t *testing.T) {
	if os.Getenv("QUOTAD_TEST_BROWSER") == "" {
		t.Skip("QUOTAD_TEST_BROWSER=1 asks for it; it needs chromium")
	}
	redis := redistest.Start(t)
	day := exampleDay()
	day.config = fmt.Sprintf("[ledger]\nbackend = \"redis\"\nredis.addrs = [%q]\n", redis.Addr) + day.config
	day.empty = true
	d := newDaemon(t, day)
	d.start()
	client := jobsapi.Client{Client: &api.Client{Socket: d.socket}}
	if g, err := client.Acquire(t.Context(), api.AcquireRequest{Credential: "youtube", Operation: "search.list", Count: 12}); err != nil || !g.Granted {
		t.Fatalf("%+v, %v", g, err)
	}
	b := openBrowser(t)
	b.navigate(d.page())
	b.await(`document.querySelector('#limits .used').textContent === '1,200'`)
	if !b.is(`getComputedStyle(document.getElementById('limits')).opacity === '1'`) {
		t.Error("the figures are dim though Redis answers")
	}
	redis.Kill()
	b.await(`document.querySelector('header').dataset.ledger !== 'ok'`)
	if !b.is(`getComputedStyle(document.getElementById('limits')).opacity < 1`) {
		t.Error("the figures are bright without Redis")
	}
	for _, size := range [][2]int64{{390, 844}, {1280, 800}} {
		for _, scheme := range []string{"light", "dark"} {
			b.show(t, size, scheme)
			b.save(t, fmt.Sprintf("noredis-%d-%s", size[0], scheme))
		}
	}
}
