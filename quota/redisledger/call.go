package redisledger

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"quotad/quota"
)

// A script is one that is called by its hash. A server that does not know it, as after a restart,
// learns it by running its source. A redis.Script would be repeated by go-redis in a pipeline.
type script struct{ hash, source string }

func newScript(source string) script { return script{redis.NewScript(source).Hash(), source} }

// once is a command that go-redis does not repeat either if a connection to a node of a
// Cluster breaks.
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

// current returns the client.
func (s *Store) current() redis.UniversalClient { return *s.client.Load() }

// run calls a script several times, in one pipeline. The arguments of each call have room for two more
// in front.
func (s *Store) run(ctx context.Context, script script, calls [][]any) []*redis.Cmd {
	client := s.current()
	commands := send(ctx, client, "evalsha", script.hash, calls)
	var unknown [][]any
	for i, command := range commands {
		if redis.HasErrorPrefix(command.Err(), "NOSCRIPT") {
			unknown = append(unknown, calls[i])
		}
	}
	again := send(ctx, client, "eval", script.source, unknown)
	for i, command := range commands {
		if redis.HasErrorPrefix(command.Err(), "NOSCRIPT") {
			commands[i], again = again[0], again[1:]
		}
	}
	for i, command := range commands {
		switch err := command.Err(); {
		case err == nil:
			if !s.answered.Load() {
				s.answered.Store(true)
			}
		case s.elsewhere(client, err):
			commands[i] = s.run(ctx, script, calls[i:i+1])[0]
		}
	}
	return commands
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

// send sends calls of a script, and waits for the answers.
func send(ctx context.Context, client redis.UniversalClient, verb, script string, calls [][]any) []*redis.Cmd {
	if len(calls) == 0 {
		return nil
	}
	commands := make([]*redis.Cmd, len(calls))
	for i, call := range calls {
		call[0], call[1] = verb, script
		commands[i] = redis.NewCmd(ctx, call...)
	}
	if err := ctx.Err(); err != nil {
		for _, command := range commands {
			command.SetErr(notSent{err})
		}
		return commands
	}
	if server, single := client.(*redis.Client); single && len(commands) == 1 { // which costs less
		server.Process(ctx, once{commands[0]})
		return commands
	}
	pipe := client.Pipeline()
	for _, command := range commands {
		pipe.Process(ctx, once{command})
	}
	_, err := pipe.Exec(ctx)
	for _, command := range commands { // each has its own error, but where no connection was made
		if err != nil && command.Err() == nil && command.Val() == nil {
			command.SetErr(err)
		}
	}
	return commands
}

// A notSent is why a command was not sent.
type notSent struct{ error }

func (e notSent) Unwrap() error { return e.error }

var errReply = fmt.Errorf("%w: cannot understand redis: a script answered in an unknown form", quota.ErrOutcomeUnknown)
