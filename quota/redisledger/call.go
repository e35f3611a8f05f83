package redisledger

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"quotad/quota"
)

// A script is one that is called by its hash. A server that does not know it, as after a restart,
// learns it by running its source. A redis.Script would be repeated by go-redis.
type script struct{ hash, source string }

func newScript(source string) script { return script{redis.NewScript(source).Hash(), source} }

// once is a command that go-redis does not repeat either if a connection to a node of a
// Cluster breaks.
type once struct {
	*redis.Cmd
	log string // the credential whose log the script is run on; empty: none
}

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

// current returns the client.
func (s *Store) current() redis.UniversalClient { return *s.client.Load() }

// run calls a script, on the log of a credential if that is not empty. The arguments have room for two more in front.
func (s *Store) run(ctx context.Context, script script, log string, args []any) *redis.Cmd {
	client := s.current()
	command := send(ctx, client, "evalsha", script.hash, log, args)
	if redis.HasErrorPrefix(command.Err(), "NOSCRIPT") {
		command = send(ctx, client, "eval", script.source, log, args)
	}
	switch err := command.Err(); {
	case err == nil:
		if !s.answered.Load() {
			s.answered.Store(true)
		}
	case s.elsewhere(client, err):
		return s.run(ctx, script, log, args)
	}
	return command
}

// ask has a client do something that is no script.
func (s *Store) ask(do func(redis.UniversalClient) error) error {
	client := s.current()
	if err := do(client); !s.elsewhere(client, err) {
		return err
	}
	return do(s.current())
}

// elsewhere reports whether another client is to be asked, as there is a Cluster behind the one address. A client that
// leads to a replica is replaced for those who ask later.
func (s *Store) elsewhere(client redis.UniversalClient, err error) bool {
	if isAbout(err, "READONLY") {
		s.replace(client, s.config)
	}
	return isAbout(err, "MOVED") && s.enterCluster(client)
}

// send sends a call of a script, and waits for the answer.
func send(ctx context.Context, client redis.UniversalClient, verb, script, log string, args []any) *redis.Cmd {
	args[0], args[1] = verb, script
	call := once{redis.NewCmd(ctx, args...), log}
	if err := ctx.Err(); err != nil {
		call.SetErr(notSent{err})
		return call.Cmd
	}
	if server, single := client.(*redis.Client); single {
		server.Process(ctx, call)
		return call.Cmd
	}
	pipe := client.Pipeline() // a Cluster's Process would ask for COMMAND
	pipe.Process(ctx, call)
	if _, err := pipe.Exec(ctx); err != nil && call.Err() == nil && call.Val() == nil { // no connection was made
		call.SetErr(err)
	}
	return call.Cmd
}

// A notSent is why a command was not sent.
type notSent struct{ error }

func (e notSent) Unwrap() error { return e.error }

var errReply = fmt.Errorf("%w: cannot understand redis: a script answered in an unknown form", quota.ErrOutcomeUnknown)
