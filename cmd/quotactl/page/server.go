package page

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Bounds on what a viewer may cost.
const (
	readTimeout  = 5 * time.Second
	writeTimeout = 10 * time.Second // also for each event
	idleTimeout  = time.Minute
	maxHeader    = 16 << 10
)

// A Server serves the page.
type Server struct {
	look  Look
	every time.Duration
	host  string
	shown Picture // the latest; only Serve uses it

	mu      sync.Mutex // guards latest and changed
	latest  rendering
	changed chan struct{} // closed and replaced when there is a later rendering
}

// New asks for the first picture, and returns a server that asks again at each interval.
func New(ctx context.Context, look Look, every time.Duration) (*Server, error) {
	picture, err := look(ctx)
	if err != nil {
		return nil, err
	}
	return &Server{look: look, every: every, host: picture.Host, shown: picture, latest: sections(picture), changed: make(chan struct{})}, nil
}

// Serve serves the page at the listener, which is on a loopback address, until ctx ends. It
// closes the listener.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, stop := context.WithCancel(ctx)
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", s.page)
	mux.HandleFunc("/events", s.events)
	mux.HandleFunc("/icon.svg", icon)
	server := &http.Server{
		Handler:           guard(hostsOf(l.Addr()), policy, mux),
		BaseContext:       func(net.Listener) context.Context { return ctx },
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
	context.AfterFunc(ctx, func() { // the streams end, too
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
	all := sections(s.shown)
	s.mu.Lock()
	defer s.mu.Unlock()
	if all == s.latest {
		return
	}
	s.latest = all
	close(s.changed)
	s.changed = make(chan struct{})
}

// now returns the latest rendering, and a channel that is closed when there is a later one.
func (s *Server) now() (rendering, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latest, s.changed
}

func (s *Server) page(w http.ResponseWriter, _ *http.Request) {
	all, _ := s.now()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	io.WriteString(w, wholePage(s.host, all))
}

// iconFill is the ground of the icon if all is well, and iconFills its ground otherwise.
const iconFill = "#2f5fb3"

var iconFills = map[string]string{"bad": "#b1271b", "warn": "#8a5800", "faint": "#5a626e"}

func icon(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "image/svg+xml")
	image := iconImage
	if fill, known := iconFills[r.URL.RawQuery]; known {
		image = strings.Replace(image, iconFill, fill, 1)
	}
	io.WriteString(w, image)
}

// events sends all sections, and then those that change, until the viewer leaves.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Time{}); err != nil { // nothing more is read
		return
	}
	var sent rendering
	for {
		all, changed := s.now()
		// A stream has no end, but the viewer must read each event in time.
		if err := control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return
		}
		if _, err := w.Write(encode(all, sent)); err != nil {
			return
		}
		if err := control.Flush(); err != nil {
			return
		}
		sent = all
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// encode returns the sections that a viewer does not have, by name, as an event of a
// stream.
func encode(all, sent rendering) []byte {
	sections := make(map[string]string)
	for i, name := range sectionNames {
		if all[i] != sent[i] {
			sections[name] = all[i]
		}
	}
	body, err := json.Marshal(sections) // on one line
	if err != nil {
		panic(err) // strings can always be encoded
	}
	return append(append([]byte("data: "), body...), "\n\n"...)
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

// guard admits only requests that a browser on this machine makes for this page itself. It
// refuses others, such as one by another site's name for this address. It checks Host,
// which each request has, and not Origin, which a GET need not have.
func guard(hosts []string, policy string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Frame-Options", "DENY")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		switch {
		case !slices.Contains(hosts, strings.ToLower(r.Host)):
			http.Error(w, fmt.Sprintf("this page is called %s", strings.Join(hosts[:1], "")), http.StatusForbidden)
		case !fromHere(r.Header.Get("Sec-Fetch-Site")):
			http.Error(w, "this page is not for other sites: type its address", http.StatusForbidden)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "this page is read only", http.StatusMethodNotAllowed)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// fromHere reports whether a request comes from this page, from an address that a person
// typed, or from a program that is no browser.
func fromHere(site string) bool { return site == "" || site == "none" || site == "same-origin" }
