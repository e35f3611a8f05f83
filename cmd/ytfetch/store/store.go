package store

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/ext/fts5"
)

// FileName is what the file is called, in whichever directory it is.
const FileName = "videos.db"

// version is of the schema, and of every file as user_version.
const version = 5

//go:embed schema.sql
var schema string

// busyTime is how long a process waits for others that write to the same file: each
// of their transactions takes milliseconds.
const busyTime = time.Minute

// A Store is an open file. It is for one goroutine at a time.
type Store struct {
	Path       string // where the file is
	db         *sqlite3.Conn
	statements map[string]*sqlite3.Stmt // by their SQL: prepared once, used again
}

// Open opens the file of a directory for reading and writing. It makes both where they
// are not there.
func Open(dir string) (*Store, error) {
	path := filepath.Join(dir, FileName)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := create(path); err != nil {
			return nil, fmt.Errorf("cannot make %q: %w", path, err)
		}
	}
	return open(path, sqlite3.OPEN_READWRITE)
}

// OpenExisting opens the file of a directory, which must be there, to read it. If the process
// may write it, Close as the last one merges its WAL.
func OpenExisting(dir string) (*Store, error) {
	path := filepath.Join(dir, FileName)
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("cannot open %q: %w", path, errors.Unwrap(err))
	}
	s, err := open(path, sqlite3.OPEN_READWRITE)
	if errors.Is(err, fs.ErrPermission) {
		return open(path, sqlite3.OPEN_READONLY)
	}
	return s, err
}

// Close closes the file. The last process that does merges its WAL.
func (s *Store) Close() error {
	for _, stmt := range s.statements {
		stmt.Close()
	}
	return s.db.Close()
}

// create makes an empty file under another name and links it to its own: it is complete when
// another process opens it, and of several processes one makes it.
func create(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(dir, "."+FileName+".")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	empty := filepath.Join(temp, FileName)
	if err := fill(empty); err != nil {
		return err
	}
	if err := os.Link(empty, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil // SQLite syncs the directory before it writes
}

// fill makes a file with the schema, and nothing in it.
func fill(path string) error {
	db, err := connect(path, sqlite3.OPEN_READWRITE|sqlite3.OPEN_CREATE)
	if err != nil {
		return err
	}
	err = db.Exec(fmt.Sprintf("PRAGMA journal_mode = wal; BEGIN; %s; PRAGMA user_version = %d; COMMIT", schema, version))
	return errors.Join(err, db.Close())
}

func open(path string, flags sqlite3.OpenFlag) (*Store, error) {
	s := &Store{Path: path, statements: make(map[string]*sqlite3.Stmt)}
	var err error
	if s.db, err = connect(path, flags); err != nil {
		return nil, fmt.Errorf("cannot open %q: %w", path, err)
	}
	if err := s.check(); err != nil {
		s.Close()
		return nil, fmt.Errorf("cannot open %q: %w", path, err)
	}
	return s, nil
}

// settings of a connection: a commit is on disk when it returns, removed rows are
// overwritten, and a search goes through many pages.
const settings = "PRAGMA synchronous = full; PRAGMA secure_delete = on; PRAGMA cache_size = -65536"

// connect opens a file. It sets the busy timeout first, because registering FTS5 reads the
// schema: another process may be closing the file as the last one, which locks it.
func connect(path string, flags sqlite3.OpenFlag) (*sqlite3.Conn, error) {
	db, err := sqlite3.OpenFlags(path, flags)
	if err != nil {
		return nil, err
	}
	err = errors.Join(db.BusyTimeout(busyTime), fts5.Register(db), registerApart(db), db.Exec(settings))
	if err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

func (s *Store) check() error {
	var got int64
	if err := s.query("PRAGMA user_version", nil, func(row *sqlite3.Stmt) { got = row.ColumnInt64(0) }); err != nil {
		return err
	}
	switch {
	case got < version:
		return fmt.Errorf("an older ytfetch made it (version %d, now %d): remove it, and what it holds is fetched again", got, version)
	case got > version:
		return fmt.Errorf("a newer ytfetch made it (version %d, here %d): install that version again, or remove it, and what it holds is fetched again", got, version)
	}
	return nil
}

// transact runs do in a transaction. It waits for other writers before it begins, and for the
// disk before it returns.
func (s *Store) transact(do func() error) (err error) {
	transaction, err := s.db.BeginImmediate()
	if err != nil {
		return err
	}
	defer transaction.End(&err)
	return do()
}

// exec runs a statement that returns no row.
func (s *Store) exec(sql string, args ...any) error { return s.query(sql, args, nil) }

// query calls each with each row of a statement.
func (s *Store) query(sql string, args []any, each func(*sqlite3.Stmt)) error {
	return s.scan(sql, args, func(row *sqlite3.Stmt) bool {
		if each != nil {
			each(row)
		}
		return true
	})
}

// scan calls each with the rows of a statement until it returns false.
func (s *Store) scan(sql string, args []any, each func(*sqlite3.Stmt) (more bool)) error {
	stmt, err := s.prepare(sql)
	if err != nil {
		return err
	}
	for i, arg := range args {
		if err := bind(stmt, i+1, arg); err != nil {
			return errors.Join(err, stmt.Reset())
		}
	}
	for stmt.Step() && each(stmt) {
	}
	err = stmt.Err()
	if reset := stmt.Reset(); err == nil {
		err = reset
	}
	return err
}

func (s *Store) prepare(sql string) (*sqlite3.Stmt, error) {
	if stmt := s.statements[sql]; stmt != nil {
		return stmt, nil
	}
	stmt, _, err := s.db.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT)
	if err == nil {
		s.statements[sql] = stmt
	}
	return stmt, err
}

// bind sets a parameter: a text, a number, a time as Unix seconds, or a list as JSON.
func bind(stmt *sqlite3.Stmt, param int, value any) error {
	switch v := value.(type) {
	case string:
		return stmt.BindText(param, v)
	case int:
		return stmt.BindInt(param, v)
	case int64:
		return stmt.BindInt64(param, v)
	case *int64:
		if v == nil {
			return stmt.BindNull(param)
		}
		return stmt.BindInt64(param, *v)
	case time.Time:
		if v.IsZero() {
			return stmt.BindNull(param)
		}
		return stmt.BindInt64(param, v.Unix())
	default:
		list, err := json.Marshal(value)
		return errors.Join(err, stmt.BindText(param, string(list)))
	}
}

// timeOf reads a time that bind wrote; zero where there is none.
func timeOf(row *sqlite3.Stmt, column int) time.Time {
	return row.ColumnTime(column, sqlite3.TimeFormatUnix)
}

// numberOf reads a number; nil where there is none.
func numberOf(row *sqlite3.Stmt, column int) *int64 {
	if row.ColumnType(column) == sqlite3.NULL {
		return nil
	}
	n := row.ColumnInt64(column)
	return &n
}
