package page

import (
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"quotad/cmd/quotactl/wording"
	"quotad/quota"
)

var (
	//go:embed page.html
	pageText string
	//go:embed page.css
	style string
	//go:embed page.js
	script string
	//go:embed icon.svg
	iconImage string
)

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"units": quota.Thousands[int64], "tone": tone, "outcomeStyle": wording.OutcomeStyle,
	"style": func() template.CSS { return template.CSS(style) }, "script": func() template.JS { return template.JS(script) },
}).Parse(pageText))

// render returns the page. An error is a mistake in page.html; what comes before it is shown.
func render(p Picture) string {
	var b strings.Builder
	if err := pageTemplate.Execute(&b, p); err != nil {
		b.WriteString(template.HTMLEscapeString(err.Error()))
	}
	return b.String()
}

// Bounds on what a viewer may cost.
const (
	readTimeout  = 5 * time.Second
	writeTimeout = 10 * time.Second
	idleTimeout  = time.Minute
	maxHeader    = 16 << 10
)

// A Server serves the page.
type Server struct {
	look  Look
	every time.Duration
	shown Picture // the latest; only Serve uses it

	mu     sync.Mutex // guards latest
	latest string     // as HTML
}

// New asks for the first picture, and returns a server that asks again at each interval.
func New(ctx context.Context, look Look, every time.Duration) (*Server, error) {
	picture, err := look(ctx)
	if err != nil {
		return nil, err
	}
	return &Server{look: look, every: every, shown: picture, latest: render(picture)}, nil
}

// Serve serves the page at the listener, which is on a loopback address, until ctx ends. It closes the listener.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, stop := context.WithCancel(ctx)
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", s.page)
	mux.HandleFunc("/icon.svg", icon)
	server := &http.Server{
		Handler:           guard(hostsOf(l.Addr()), mux),
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,

		DisableGeneralOptionsHandler: true,
	}
	var watching sync.WaitGroup
	watching.Go(func() { s.watch(ctx) })
	defer watching.Wait()
	defer stop()
	ended := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		patience, cancel := context.WithTimeout(context.Background(), writeTimeout)
		defer cancel()
		ended <- cmp.Or(server.Shutdown(patience), server.Close())
	})
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("cannot serve the page: %w", err)
	}
	return <-ended
}

// watch updates the page at each interval until ctx ends.
func (s *Server) watch(ctx context.Context) {
	ticks := time.NewTicker(s.every)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			s.update(ctx)
		}
	}
}

// update publishes what the page shows now, or that quotad does not answer.
func (s *Server) update(ctx context.Context) {
	picture, err := s.look(ctx)
	switch {
	case ctx.Err() != nil:
		return // the server ends
	case err == nil:
		s.shown = picture
	case s.shown.Lost == nil:
		s.shown.Lost, s.shown.Since = err, time.Now()
	default:
		s.shown.Lost = err
	}
	html := render(s.shown)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest = html
}

func (s *Server) page(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	html := s.latest
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	io.WriteString(w, html)
}

func icon(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "image/svg+xml")
	io.WriteString(w, iconImage)
}

// hostsOf returns the names by which a browser on this machine reaches an address of it.
func hostsOf(address net.Addr) []string {
	_, port, _ := net.SplitHostPort(address.String())
	names := []string{address.String()}
	for _, host := range []string{"127.0.0.1", "localhost", "::1"} {
		names = append(names, net.JoinHostPort(host, port))
	}
	if port == "80" { // browsers leave it out
		names = append(names, "127.0.0.1", "localhost", "[::1]")
	}
	return names
}

// headers let the page use its own style and script, and nothing from anywhere else.
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; style-src " + hashOf(style) + "; script-src " + hashOf(script) +
		"; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	"X-Frame-Options":              "DENY",
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cache-Control":                "no-store",
}

// hashOf names a text in a policy.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// guard admits only requests that a browser on this machine makes for this page itself. It refuses others, such as one
// by another site's name for this address. It checks Host, which each request has, and not Origin, which a GET need not
// have.
func guard(hosts []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		switch {
		case !slices.Contains(hosts, strings.ToLower(r.Host)):
			http.Error(w, "this page is called "+hosts[0], http.StatusForbidden)
		case !fromHere(r.Header.Get("Sec-Fetch-Site")):
			http.Error(w, "this page is not for other sites: type its address", http.StatusForbidden)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "this page is read only", http.StatusMethodNotAllowed)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// fromHere reports whether a request comes from this page, from an address that a person typed, or from a program that
// is no browser.
func fromHere(site string) bool { return site == "" || site == "none" || site == "same-origin" }
