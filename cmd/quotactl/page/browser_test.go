package page_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/quota/api"
)

const configuration = `
[credentials.youtube]
limits.daily = { units = 10_000, reserve = 500, window = "24h" }
limits.search = { units = 4_000, window = "24h", only = ["search.list"] }
operations = { "search.list" = 100, "videos.list" = 1 }
[credentials.maps]
limits.daily = { units = 1_500, window = { calendar = "day", timezone = "UTC" } }
limits.burst = { units = 60, window = "1m" }
operations.geocode = 1
[jobs.trending]
credential = "youtube"
regions = ["US", "GB", "München", "a \"quoted\" name"]
every = "24h"
command = ["true"]
[jobs.broken]
credential = "maps"
every = "24h"
regions = ["EU", "<script>alert(1)</script>"]
command = ["sh", "-c", "echo 'HTTP Error 404' >&2; exit 1"]
`

// TestInABrowser shows the page, served by a real quotactl from a real quotad, to a real browser: what it shows is what
// the API says, changes by itself and within its width, and continues after quotad was away.
func TestInABrowser(t *testing.T) {
	if os.Getenv("QUOTAD_TEST_BROWSER") == "" {
		t.Skip("QUOTAD_TEST_BROWSER=1 asks for it; it needs chromium")
	}
	dir := t.TempDir()
	file, socket := filepath.Join(dir, "config.toml"), filepath.Join(dir, "q.sock")
	text := fmt.Sprintf("state_dir = %q\nsocket = %q\n%s", filepath.Join(dir, "state"), socket, configuration)
	must(t, os.WriteFile(file, []byte(text), 0o644))
	if output, err := exec.Command("go", "build", "-o", dir, "quotad/cmd/quotad", "quotad/cmd/quotactl").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	quotad := func() (stop func()) {
		_, stop = child(t, regexp.MustCompile(`serving`), dir+"/quotad", "--config", file)
		return stop
	}
	stop := quotad()
	client := jobsapi.Client{Client: &api.Client{Socket: socket}}
	spend(t, client, "search.list", 7)
	begin(t, client, "trending")
	url, closePage := child(t, regexp.MustCompile(`^http://127\.0\.0\.1:[0-9]+/$`), dir+"/quotactl", "page", "--socket", socket)
	b := openBrowser(t)
	must(t, chromedp.Do(b.ctx, chromedp.Navigate(url)))
	b.await(`document.querySelector('#limits .chart') && document.querySelector('#jobs .marks .good')`)
	b.await(left("8,800"))
	b.fits("calm")

	begin(t, client, "broken")
	if _, err := client.CloseLimit(t.Context(), "maps", api.Closing{Limit: "daily", Until: "3h", Note: "You have exceeded your <i>daily</i> quota."}); err != nil {
		t.Fatal(err)
	}
	b.await(`['job-broken', 'limit-maps-daily'].every(id => document.querySelector('#triage a[href="#' + id + '"]'))`)
	b.is(`Object.defineProperty(navigator, 'clipboard', {value: {writeText: async (text) => { window.copied = text; }}})`)
	for _, claim := range []string{
		`document.querySelectorAll('section script, #triage i').length === 0`, // names are text
		`document.querySelector('#jobs').textContent.includes('<script>alert(1)</script>')`,
		`document.querySelector('#jobs .row').id === 'job-broken'`, // what is in trouble comes first
		`[...document.querySelectorAll('#triage a')].every(a => document.getElementById(a.hash.slice(1)))`,
		`document.querySelector('#triage a[href="#job-broken"]').click() || document.getElementById('job-broken').open`,
		`document.querySelector('#triage button').click() || true`,
	} {
		if !b.is(claim) {
			t.Errorf("not %s", claim)
		}
	}
	b.await(`window.copied === document.querySelector('#triage button').textContent`)
	b.fits("trouble")

	// It changes by itself, and keeps what is open and has the focus.
	b.is(`(window.loadedOnce = true) && document.querySelector('#job-broken summary').focus()`)
	spend(t, client, "videos.list", 3)
	begin(t, client, "broken")
	b.await(left("8,797") + `&& document.querySelectorAll('#job-broken .marks .bad').length === 2`)
	b.await(`window.loadedOnce && document.getElementById('job-broken').open && document.activeElement.closest('#job-broken')`)

	// It outlives quotad, and says when it is not served any more.
	stop()
	b.await(`document.querySelector('#head .banner')?.textContent.startsWith('no answer since ')`)
	b.await(left("8,797"))
	quotad()
	b.await(`!document.querySelector('#head .banner') && window.loadedOnce && ` + left("8,797"))
	closePage()
	b.await(`!document.getElementById('away').hidden`)
}

// left claims what the page shows of the first limit.
func left(units string) string {
	return fmt.Sprintf(`document.querySelector('#limit-youtube-daily .left b').textContent === %q`, units)
}

func spend(t *testing.T, client jobsapi.Client, operation string, count int64) {
	t.Helper()
	if d, err := client.Acquire(t.Context(), api.AcquireRequest{Credential: "youtube", Operation: operation, Count: count}); err != nil || !d.Granted {
		t.Fatalf("granted %v, %v", d.Granted, err)
	}
}

func begin(t *testing.T, client jobsapi.Client, job string) {
	t.Helper()
	run, err := client.Begin(t.Context(), job, jobsapi.RunRequest{})
	for p := (jobs.Progress{}); err == nil && (p.ID == "" || p.State == jobs.RunRunning); {
		p, err = client.Await(t.Context(), run.ID, len(run.Ring), -1)
	}
	must(t, err)
}

// A browser is a tab of a chromium. What it complains of on its console, of a broken policy too, fails the test.
type browser struct {
	t   *testing.T
	ctx context.Context
}

func openBrowser(t *testing.T) *browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.NoSandbox) // root has no sandbox
	allocator, endBrowser := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(endBrowser)
	ctx, closeTab := chromedp.NewContext(allocator)
	t.Cleanup(closeTab)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute) // of a test that hangs
	messages, ended := chromedp.Console(ctx), make(chan struct{})
	go func() {
		defer close(ended)
		for m, err := range messages {
			wrong := err == nil && (m.Type == chromedp.ConsoleError || m.Type == chromedp.ConsoleException)
			if wrong && !strings.Contains(m.Text, "ERR_CONNECTION_REFUSED") { // which is how the test ends
				t.Errorf("the browser complains: %s", m.Text)
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return &browser{t, ctx}
}

// await waits until an expression is true of the page, as it is or becomes.
func (b *browser) await(expression string) {
	b.t.Helper()
	promise := fmt.Sprintf(`new Promise(done => {
		const look = () => { if (%s) { watcher.disconnect(); done(true); } };
		const watcher = new MutationObserver(look);
		watcher.observe(document, {subtree: true, childList: true, characterData: true, attributes: true});
		look();
	})`, expression)
	_, err := chromedp.Run(b.ctx, chromedp.Evaluate[any](promise+`.then(() => true)`, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("never true: %s: %v", expression, err)
	}
}

// is returns whether an expression is true of the page as it is.
func (b *browser) is(expression string) bool {
	b.t.Helper()
	yes, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
	must(b.t, err)
	return yes
}

// violations returns, for each rule of accessibility that the page breaks, the rule and the first place.
const violations = `axe.run().then(found => found.violations.map(v =>
	v.id + " (" + v.nodes.length + "): " + v.nodes[0].html.slice(0, 200) + ": " + v.nodes[0].failureSummary))`

// fits checks that the page is no wider than its window, at several sizes, by day and by night, and that axe-core finds
// it accessible, if QUOTAD_TEST_AXE names its axe.min.js. A picture of each stays in QUOTAD_TEST_ARTIFACTS.
func (b *browser) fits(name string) {
	b.t.Helper()
	axe, _ := os.ReadFile(os.Getenv("QUOTAD_TEST_AXE"))
	_, err := chromedp.Run(b.ctx, chromedp.Evaluate[any](string(axe)+";document.querySelectorAll('details').forEach(d => d.open = true)"))
	must(b.t, err)
	for _, width := range []int64{360, 390, 1280, 1600} {
		for _, scheme := range []string{"light", "dark"} {
			media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
			_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, media)
			if err == nil {
				err = chromedp.Do(b.ctx, chromedp.EmulateViewport(width, 900))
			}
			var broken []string
			if err == nil && axe != nil {
				broken, err = chromedp.Run(b.ctx, chromedp.Evaluate[[]string](violations, chromedp.EvalAwaitPromise))
			}
			if err != nil || len(broken) > 0 || !b.is(`document.documentElement.scrollWidth <= innerWidth`) {
				b.t.Errorf("%s, %d columns, %s: wider than its window, or %v, or breaks %q", name, width, scheme, err, broken)
			}
			if dir := os.Getenv("QUOTAD_TEST_ARTIFACTS"); dir != "" {
				png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
				if err == nil {
					err = os.WriteFile(fmt.Sprintf("%s/page-%s-%d-%s.png", dir, name, width, scheme), png, 0o644)
				}
				if err != nil {
					b.t.Error(err)
				}
			}
		}
	}
}

// child runs a command until it is stopped, at the latest with the test, and returns the first line that matches of what
// it writes.
func child(t *testing.T, first *regexp.Regexp, command ...string) (line string, stop func()) {
	t.Helper()
	reader, writer := io.Pipe()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = writer, writer
	must(t, cmd.Start())
	stop = sync.OnceFunc(func() {
		cmd.Process.Signal(syscall.SIGINT)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", command[0], err)
		}
		writer.Close()
	})
	t.Cleanup(stop)
	for lines := bufio.NewScanner(reader); lines.Scan(); {
		if line = lines.Text(); first.MatchString(line) {
			go io.Copy(io.Discard, reader)
			return line, stop
		}
	}
	t.Fatalf("%s ended", command[0])
	return "", nil
}

// must ends a test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
