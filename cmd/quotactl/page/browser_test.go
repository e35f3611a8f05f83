package page_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"iter"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/quota"
	"quotad/quota/api"
)

// hangTimeout ends a test that hangs: whatever it waits for takes less, on a busy machine too.
const hangTimeout = 2 * time.Minute

// TestInABrowser shows the page of a busy day, served by a real quotactl from a real quotad, to a real browser: what it
// shows is what the API says, changes by itself and within its width, and goes on after quotad was away.
func TestInABrowser(t *testing.T) {
	if os.Getenv("QUOTAD_TEST_BROWSER") == "" {
		t.Skip("QUOTAD_TEST_BROWSER=1 asks for it; it needs chromium")
	}
	d := newDaemon(t, busyDay())
	d.start()
	client := jobsapi.Client{Client: &api.Client{Socket: d.socket}}
	b := openBrowser(t)
	b.navigate(d.page())
	b.await(`document.querySelector('#limits .chart') && document.querySelector('#jobs .marks .good')`)

	t.Run("shows what the API says", func(t *testing.T) { b.agrees(t, client) })
	t.Run("fits its width", func(t *testing.T) { b.photograph(t, "calm") })
	trouble(t, client)
	b.await(`['job-broken', 'limit-maps-daily'].every(id => document.querySelector('#triage a[href="#' + id + '"]'))`)
	t.Run("shows names as text", func(t *testing.T) {
		if !b.is(`document.querySelectorAll('section script, #triage i').length === 0`) {
			t.Error("a script came with the data")
		}
		if !b.is(`document.querySelector('#jobs').textContent.includes('<script>alert(1)</script>')`) {
			t.Error("a name that looks like a script is not shown")
		}
	})
	t.Run("a trouble leads to its row", func(t *testing.T) {
		for _, claim := range []string{
			`document.querySelector('#jobs .row.bad').id === 'job-broken' && document.querySelector('#jobs .row').matches('.bad, .warn')`,
			`[...document.querySelectorAll('#triage a')].every(a => document.getElementById(a.hash.slice(1)))`,
			`document.querySelector('#triage a[href="#job-broken"]').click() || document.getElementById('job-broken').open`,
		} {
			if !b.is(claim) {
				t.Errorf("not %s", claim)
			}
		}
	})
	t.Run("a click copies a command", func(t *testing.T) {
		b.is(`Object.defineProperty(navigator, 'clipboard', {value: {writeText: async (text) => { window.copied = text; }}})`)
		b.is(`document.querySelector('#triage button').click()`)
		b.await(`window.copied === document.querySelector('#triage button').textContent`)
	})
	t.Run("fits its width with troubles", func(t *testing.T) { b.photograph(t, "trouble") })
	t.Run("is accessible", func(t *testing.T) { b.accessible(t) })
	t.Run("changes by itself, and keeps what is open and has the focus", func(t *testing.T) {
		b.is(`(window.loadedOnce = true) && document.querySelector('#job-broken summary').focus()`)
		if d, err := client.Acquire(t.Context(), api.AcquireRequest{Credential: "youtube", Operation: "videos.list", Count: 3}); err != nil || !d.Granted {
			t.Fatalf("granted %v, %v", d.Granted, err)
		}
		client.Begin(t.Context(), "broken", jobsapi.RunRequest{})
		b.agrees(t, client)
		b.await(`window.loadedOnce && document.getElementById('job-broken').open && document.activeElement.closest('#job-broken')`)
	})
	t.Run("outlives quotad", func(t *testing.T) {
		d.stop()
		b.await(`document.querySelector('#head .banner')?.textContent.startsWith('no answer since ')`)
		if !b.is(`[...document.querySelectorAll('#limits .left')].filter(figure => figure.textContent !== '').length === 4`) {
			t.Error("the last picture is gone")
		}
		b.save(t, "away")
		d.start()
		b.await(`!document.querySelector('#head .banner') && window.loadedOnce`)
		b.agrees(t, client)
	})
	for _, complaint := range b.complaints() {
		t.Errorf("the browser complains: %s", complaint)
	}
	t.Run("says when it is not served any more", func(t *testing.T) {
		d.close()
		b.await(`!document.getElementById('away').hidden`)
	})
}

// TestPicture writes page.png, the picture of the page in the README, as of a usual day of
// the example configuration, on which one region fails. Run it with
//
//	QUOTAD_TEST_ARTIFACTS=$PWD/cmd/quotactl/page go test -run '^TestPicture$' ./cmd/quotactl/page
//
// The variable names the directory. The test needs chromium.
func TestPicture(t *testing.T) {
	dir := os.Getenv("QUOTAD_TEST_ARTIFACTS")
	if dir == "" {
		t.Skip("QUOTAD_TEST_ARTIFACTS=DIRECTORY asks for it; it needs chromium")
	}
	name := filepath.Join(dir, "page.png")
	d := newDaemon(t, exampleDay())
	d.start()
	client := jobsapi.Client{Client: &api.Client{Socket: d.socket}}
	client.Begin(t.Context(), "channels", jobsapi.RunRequest{}) // unless a slot that was missed is made up for
	b := openBrowser(t)
	b.show(t, [2]int64{1000, 900}, "light")
	b.navigate(d.page())
	b.await(`document.querySelector('#limits .chart') && document.querySelector('#triage a')`)
	// The host of a test has no name worth showing.
	b.await(`document.querySelector('h1').textContent = 'quotad on collector'`)
	b.await(`document.querySelector('header p').textContent = document.querySelector('header p').textContent.replace(/ \(.*?\)/, '')`)
	shot, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		t.Fatal(err)
	}
	var small bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&small, fewColours(whole, whole.Bounds())); err != nil {
		t.Fatal(err)
	}
	if small.Len() > 60_000 {
		t.Errorf("the picture has %d bytes", small.Len())
	}
	if err := os.WriteFile(name, small.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// fewColours returns a part of a picture in its most frequent colours: text and flat areas
// need no others.
func fewColours(from image.Image, part image.Rectangle) image.Image {
	counts := map[color.Color]int{}
	for y := part.Min.Y; y < part.Max.Y; y++ {
		for x := part.Min.X; x < part.Max.X; x++ {
			counts[from.At(x, y)]++
		}
	}
	frequent := slices.SortedFunc(maps.Keys(counts), func(a, b color.Color) int { return counts[b] - counts[a] })
	to := image.NewPaletted(part, frequent[:min(len(frequent), 128)])
	draw.Draw(to, part, from, part.Min, draw.Src)
	return to
}

// trouble closes a limit, which is a note, and has a job fail.
func trouble(t *testing.T, client jobsapi.Client) {
	t.Helper()
	if _, err := client.CloseLimit(t.Context(), "maps", api.Closing{Limit: "daily", Until: "3h", Note: "You have exceeded your <i>daily</i> quota."}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Begin(t.Context(), "broken", jobsapi.RunRequest{}); err != nil {
		t.Fatal(err)
	}
}

// agrees waits until the page shows what the API tells at the same time.
func (b *browser) agrees(t *testing.T, client jobsapi.Client) {
	t.Helper()
	for {
		claims := claimsOf(t, client)
		wrong := slices.IndexFunc(claims, func(claim string) bool { return !b.is(claim) })
		if wrong < 0 {
			return
		}
		if err := b.run(nextChange); err != nil {
			b.save(t, "hangs")
			t.Fatalf("never true: %s: %v", claims[wrong], err)
		}
	}
}

// claimsOf is what a page must show by what the API tells now, as expressions.
func claimsOf(t *testing.T, client jobsapi.Client) (claims []string) {
	t.Helper()
	claim := func(format string, args ...any) { claims = append(claims, fmt.Sprintf(format, args...)) }
	status, err := client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range status.Credentials {
		for _, l := range c.Limits {
			at := fmt.Sprintf(`document.querySelector('#limit-%s-%s`, c.Name, l.Name)
			claim(`%s .left b').textContent === %q`, at, quota.Thousands(l.Remaining))
			claim(`%s title').textContent.startsWith(%q)`, at, quota.Thousands(l.Used)+" of ")
		}
	}
	for _, j := range status.Jobs {
		runs, err := client.Runs(t.Context(), jobsapi.Selection{Job: j.Name, Most: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range runs {
			if run.State != jobs.RunSkipped {
				claim(`document.querySelector('#job-%s .marks i:last-child').title.includes(%q)`, j.Name, run.StartedAt.Local().Format("15:04:05"))
			}
		}
	}
	return claims
}

// A browser is a tab of a chromium.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu   sync.Mutex // guards said
	said []string   // complaints on its console: of a broken policy too
}

func openBrowser(t *testing.T) *browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.NoSandbox) // root has no sandbox
	allocator, endBrowser := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(endBrowser)
	ctx, closeTab := chromedp.NewContext(allocator)
	t.Cleanup(closeTab)
	ctx, cancel := context.WithTimeout(ctx, hangTimeout)
	b := &browser{t: t, ctx: ctx}
	messages, heard := chromedp.Console(ctx), make(chan struct{})
	go func() {
		defer close(heard)
		b.hear(messages)
	}()
	t.Cleanup(func() { cancel(); <-heard })
	return b
}

func (b *browser) hear(messages iter.Seq2[chromedp.ConsoleMessage, error]) {
	for m, err := range messages {
		if err != nil {
			return
		}
		if m.Type == chromedp.ConsoleError || m.Type == chromedp.ConsoleException {
			b.mu.Lock()
			b.said = append(b.said, m.Text)
			b.mu.Unlock()
		}
	}
}

func (b *browser) complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.said)
}

func (b *browser) navigate(url string) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, chromedp.Navigate(url)); err != nil {
		b.t.Fatal(err)
	}
}

// nextChange is a promise of the next change of the page.
const nextChange = `new Promise(done => {
	const watcher = new MutationObserver(() => { watcher.disconnect(); done(true); });
	watcher.observe(document, {subtree: true, childList: true, characterData: true, attributes: true});
})`

// run waits for a promise.
func (b *browser) run(promise string) error {
	_, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](promise, chromedp.EvalAwaitPromise))
	return err
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
	if err := b.run(promise); err != nil {
		b.t.Fatalf("never true: %s: %v", expression, err)
	}
}

// is tells whether an expression is true of the page as it is.
func (b *browser) is(expression string) bool {
	b.t.Helper()
	yes, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
	if err != nil {
		b.t.Fatal(err)
	}
	return yes
}

// photograph keeps a picture of each view, and fails where the page is wider than its
// window.
func (b *browser) photograph(t *testing.T, name string) {
	b.views(t, func(view string) {
		if !b.is(`document.documentElement.scrollWidth <= innerWidth`) {
			t.Errorf("%s: the page is wider than its window", view)
		}
		b.save(t, name+"-"+view)
	})
}

// views shows the page at several sizes, by day and by night.
func (b *browser) views(t *testing.T, do func(view string)) {
	for _, size := range [][2]int64{{360, 1000}, {390, 844}, {1280, 800}, {1600, 1000}} {
		for _, scheme := range []string{"light", "dark"} {
			b.show(t, size, scheme)
			do(fmt.Sprintf("%d-%s", size[0], scheme))
		}
	}
}

// show gives the window a size and a colour scheme.
func (b *browser) show(t *testing.T, size [2]int64, scheme string) {
	t.Helper()
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, media); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(b.ctx, chromedp.EmulateViewport(size[0], size[1])); err != nil {
		t.Fatal(err)
	}
}

func (b *browser) save(t *testing.T, name string) {
	t.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		t.Errorf("no picture %s: %v", name, err)
		return
	}
	if err := os.WriteFile(place(t, name+".png"), png, 0o644); err != nil {
		t.Error(err)
	}
}

// A busyDaemon is a quotad with a busy day behind it, and a quotactl that shows it.
type busyDaemon struct {
	t                *testing.T
	bin, dir, socket string
	stop             func() // ends quotad
	close            func() // ends quotactl
}

func newDaemon(t *testing.T, day plannedDay) *busyDaemon {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "q") // a day's files are synced a thousand times
	if err != nil {
		dir, err = os.MkdirTemp("", "q") // short, as the names of sockets are
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	d := &busyDaemon{t: t, bin: filepath.Join(dir, "bin") + "/", dir: dir, socket: filepath.Join(dir, "q.sock")}
	build := exec.Command("go", "build", "-o", d.bin, "quotad/cmd/quotad", "quotad/cmd/quotactl")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	state := filepath.Join(dir, "state")
	if err := os.MkdirAll(state, 0o700); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("state_dir = %q\nsocket = %q\n%s", state, d.socket, day.config)
	file := filepath.Join(dir, "config.toml")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	writeDay(t, day, file, time.Now())
	return d
}

// start starts quotad, and returns once it answers.
func (d *busyDaemon) start() {
	d.t.Helper()
	quotad := exec.Command(d.bin+"quotad", "--config", filepath.Join(d.dir, "config.toml"))
	line, end := d.child(quotad, quotad.StderrPipe, regexp.MustCompile(`serving`))
	if line == "" {
		d.t.Fatal("quotad does not serve")
	}
	d.stop = end
}

// page starts quotactl page and returns its address.
func (d *busyDaemon) page() string {
	d.t.Helper()
	quotactl := exec.Command(d.bin+"quotactl", "page", "--no-browser", "--socket", d.socket)
	url, end := d.child(quotactl, quotactl.StdoutPipe, regexp.MustCompile(`^http://127\.0\.0\.1:[0-9]+/$`))
	d.close = end
	return url
}

// child runs a command until it is ended, at the latest with the test, and returns the
// first line that matches of what it writes.
func (d *busyDaemon) child(command *exec.Cmd, pipe func() (io.ReadCloser, error), first *regexp.Regexp) (line string, end func()) {
	d.t.Helper()
	output, err := pipe()
	if err != nil {
		d.t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		d.t.Fatal(err)
	}
	found, done := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(done)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			if first.MatchString(lines.Text()) {
				select {
				case found <- lines.Text():
				default: // only the first is waited for
				}
			}
		}
		close(found)
		if err := command.Wait(); err != nil {
			d.t.Errorf("%s: %v", command.Args[0], err)
		}
	}()
	end = sync.OnceFunc(func() {
		command.Process.Signal(syscall.SIGINT)
		<-done
	})
	d.t.Cleanup(end)
	return <-found, end
}
