package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Bounds of what a viewer may cost.
const (
	readTimeout  = 5 * time.Second
	writeTimeout = 10 * time.Second // also for each event
	idleTimeout  = time.Minute
	maxHeader    = 16 << 10
)

// A Server shows what it is given to see.
type Server struct {
	look     Look
	every    time.Duration
	renderer *renderer
	host     string
	scene    scene // what was seen last; of Serve alone

	mu      sync.Mutex // guards latest and changed
	latest  rendering
	changed chan struct{} // closed when there is a later rendering, and made anew
}

// New looks for the first time, and returns a server that looks again at each interval.
func New(ctx context.Context, look Look, every time.Duration) (*Server, error) {
	s := &Server{look: look, every: every, renderer: newRenderer(), changed: make(chan struct{})}
	picture, err := look(ctx)
	if err != nil {
		return nil, err
	}
	s.scene.Picture, s.host = picture, picture.Host
	s.latest = s.renderer.sections(s.scene)
	return s, nil
}

// Serve shows the page to whoever asks the listener, which is on a loopback address,
// until ctx ends. It closes the listener.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	server := &http.Server{
		Handler:           guard(hostsOf(l.Addr()), s.renderer.policy(), s.routes()),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,

		DisableGeneralOptionsHandler: true,
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	broken := s.watch(ctx, served)
	stop() // the streams end
	patience, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	err := server.Shutdown(patience)
	if err != nil {
		server.Close()
	}
	if broken == nil {
		<-served
	}
	return errors.Join(broken, err)
}

// watch looks again and again until ctx ends. When serving ends before, it returns why.
func (s *Server) watch(ctx context.Context, served <-chan error) error {
	ticks := time.NewTicker(s.every)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-served:
			return fmt.Errorf("cannot serve the page: %w", err)
		case <-ticks.C:
			s.lookAgain(ctx)
		}
	}
}

// lookAgain shows what is to be seen now, or that nothing is.
func (s *Server) lookAgain(ctx context.Context) {
	picture, err := s.look(ctx)
	switch {
	case ctx.Err() != nil:
		return // nobody looks any more
	case err == nil:
		s.scene = scene{Picture: picture}
	case s.scene.Lost == nil:
		s.scene.Lost, s.scene.Since = err, time.Now()
	default:
		s.scene.Lost = err
	}
	s.publish(s.renderer.sections(s.scene))
}

func (s *Server) publish(all rendering) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if all == s.latest {
		return
	}
	s.latest = all
	close(s.changed)
	s.changed = make(chan struct{})
}

// now returns the latest rendering, and what is closed when there is a later one.
func (s *Server) now() (rendering, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latest, s.changed
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", s.page)
	mux.HandleFunc("/events", s.events)
	mux.HandleFunc("/icon.svg", icon)
	return mux
}

func (s *Server) page(w http.ResponseWriter, _ *http.Request) {
	all, _ := s.now()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	io.WriteString(w, s.renderer.page(s.host, all))
}

// iconFill is the ground of the icon, and iconFills what it is where things are otherwise.
const iconFill = "#2f5fb3"

var iconFills = map[string]string{"bad": "#b1271b", "warn": "#8a5800", "faint": "#5a626e"}

func icon(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "image/svg+xml")
	image := read("icon.svg")
	if fill, known := iconFills[r.URL.RawQuery]; known {
		image = strings.Replace(image, iconFill, fill, 1)
	}
	io.WriteString(w, image)
}

// events sends the sections, and then those that have changed, until the viewer leaves.
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
		// A stream has no end, but each event must be read soon.
		if err := control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return
		}
		if _, err := w.Write(event(all, sent)); err != nil {
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

// event is the sections that a viewer has not been sent, by their names, in the form of
// an event stream.
func event(all, sent rendering) []byte {
	sections := make(map[string]string)
	for i, name := range sectionNames {
		if all[i] != sent[i] {
			sections[name] = all[i]
		}
	}
	body, err := json.Marshal(sections) // on one line
	if err != nil {
		panic(err) // of strings nothing can go wrong
	}
	return append(append([]byte("data: "), body...), "\n\n"...)
}
