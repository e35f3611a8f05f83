package servertest

import (
	"context"
	"errors"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/ledgertest"
	"quotad/quota/server"
)

// A Server serves the credentials YouTube and Other.
type Server struct {
	T       *testing.T
	Socket  string
	Clock   *ledgertest.Clock // the ledger's
	Service *quota.Service
	Tokens  *Tokens
	*server.Server
	Frontend *server.Frontend // passes requests to it

	mu     sync.Mutex // guards events
	events []server.Decided
}

// YouTube has 9,500 units a day for ordinary callers, 4,000 of them for searches.
func YouTube() *quota.Credential {
	return &quota.Credential{
		Name: "youtube",
		Limits: []quota.Limit{
			{Name: "daily", Units: 10_000, Reserve: 500, Window: quota.Sliding(24 * time.Hour)},
			{Name: "search", Units: 4_000, Window: quota.Sliding(24 * time.Hour), Only: []string{"search.list"}},
		},
		Operations: map[string]quota.Cost{"search.list": {Every: 100}, "videos.list": {Every: 1}},
	}
}

// Other has two units a minute.
func Other() *quota.Credential {
	return &quota.Credential{
		Name:       "other",
		Limits:     []quota.Limit{{Name: "few", Units: 2, Window: quota.Sliding(time.Minute)}},
		Operations: map[string]quota.Cost{"get": {Every: 1}},
	}
}

// Start runs a server until the test is over; edit, unless it is nil, changes its
// configuration first. Its frontend may have bounds.
func Start(t *testing.T, edit func(*server.Config), bounds ...server.FrontendConfig) *Server {
	t.Helper()
	s := &Server{T: t, Clock: ledgertest.NewClock(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)), Tokens: new(Tokens)}
	s.Service = NewService(t, ledgertest.NewModel(s.Clock.Now), YouTube(), Other())
	config := server.Config{Service: s.Service, Tokens: s.Tokens, Version: "v1.2.3", Emit: s.observe, Denials: new(server.Denials)}
	if edit != nil {
		edit(&config)
	}
	s.Service = config.Service
	emit := config.Emit
	config.Emit = func(event any) {
		config.Denials.Record(event)
		emit(event)
	}
	s.Socket = filepath.Join(ShortDir(t), "quotad.sock")
	listener, err := server.Listen(s.Socket)
	Must(t, err)
	s.Server, s.Frontend = Serve(t, config, listener, bounds...)
	return s
}

// Must fails a test at an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// NewService returns the service of a ledger.
func NewService(t testing.TB, ledger quota.Ledger, credentials ...*quota.Credential) *quota.Service {
	t.Helper()
	service, err := quota.NewService(ledger, credentials, time.Second)
	Must(t, err)
	return service
}

// Serve runs a server until the test is over.
func Serve(t testing.TB, config server.Config, listener net.Listener, bounds ...server.FrontendConfig) (*server.Server, *server.Frontend) {
	t.Helper()
	s, front := server.New(config), append(bounds, server.FrontendConfig{})[0]
	front.Handler = s
	frontend, served := server.NewFrontend(front), make(chan error, 1)
	go func() { served <- frontend.Serve(listener) }()
	t.Cleanup(func() {
		frontend.Shutdown(Canceled()) // cuts what a failed test left
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return s, frontend
}

// TCP listens on a free port of this host.
func TCP(t testing.TB) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Must(t, err)
	return listener
}

// Canceled returns a context that has ended.
func Canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// ShortDir returns a directory whose sockets' paths stay below 108 bytes, and which
// every user may enter.
func ShortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "q")
	Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	Must(t, os.Chmod(dir, 0o755))
	return dir
}

// StaleSocket leaves what a killed daemon leaves.
func StaleSocket(t testing.TB, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	Must(t, err)
	l.SetUnlinkOnClose(false)
	l.Close()
}

func (s *Server) observe(event any) {
	if e, decided := event.(server.Decided); decided {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.events = append(s.events, e)
	}
}

// Events returns what the server has reported.
func (s *Server) Events() []server.Decided {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// Client returns a client with a run token, which may be empty.
func (s *Server) Client(token string) *api.Client {
	return &api.Client{Socket: s.Socket, Token: token}
}

// Used returns what the credential's first limit holds.
func (s *Server) Used(credential string) quota.Units {
	s.T.Helper()
	usage, err := s.Service.Usage(context.Background(), credential)
	Must(s.T, err)
	return usage.Limits[0].Used
}

// Acquire returns the answer to an acquire, a refusal too.
func (s *Server) Acquire(token string, r api.AcquireRequest) api.Decision {
	s.T.Helper()
	d, err := s.Client(token).Acquire(context.Background(), r)
	if refused := new(api.Problem); err != nil && !errors.As(err, &refused) {
		s.T.Fatalf("acquire %+v: %v", r, err)
	}
	return d
}

// OwnGroup returns the group of who runs the test: as Config.AdminGroup it makes them an
// operator.
func OwnGroup(t *testing.T) string {
	t.Helper()
	self, err := user.Current()
	Must(t, err)
	group, err := user.LookupGroupId(self.Gid)
	Must(t, err)
	return group.Name
}
