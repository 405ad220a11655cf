package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/boocode/filestore/checkpoint"
	"github.com/boocode/filestore/internal/dbpipe"
	"github.com/boocode/filestore/internal/vfs"
	"github.com/boocode/filestore/manager"
)

// defaultDB is the database, beside the stores, of a runtime that has none.
const defaultDB = "checkpoints.db"

// openCheckpoints opens the checkpoints in the runtime's database, and settles restores
// that were cut off. It adds to closers what closes the database, also if it fails.
func (a *app) openCheckpoints(ctx context.Context, e *manager.Engine, f *httpFlags, token string,
	closers *[]func() error) (*checkpoint.DB, error) {
	opts := &checkpoint.Options{Logger: a.log, Runtime: f.createTables || f.db == "",
		Manager: func(ctx context.Context, path, chat string) (*manager.FileSnapshotManager, func() error, error) {
			m, err := manager.Open(ctx, path, &manager.Options{Engine: e, Session: chat})
			if err != nil {
				return nil, nil, err
			}
			return m, m.Close, nil
		}}
	if f.schema != "" {
		if err := readSchema(a.path(f.schema), &opts.Schema); err != nil {
			return nil, err
		}
	}
	if f.hook != "" {
		h := newRuntimeHook(f.hook, token, a.log)
		opts.Reset, opts.Restored = h.reset, h.restored
	}
	db, dialect, err := a.openDB(f.db, opts.Runtime)
	if err != nil {
		return nil, err
	}
	*closers = append(*closers, db.Close)
	if err := db.PingContext(ctx); err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	d, err := checkpoint.Open(ctx, db, dialect, opts)
	if err != nil {
		return nil, &failure{exitEnvironment, err,
			"--schema FILE says how the runtime's tables are called, --create-tables makes those that are missing"}
	}
	settled, err := d.Recover(ctx)
	for _, r := range settled {
		became := "taken back"
		if r.Done {
			became = "done"
		}
		if r.FilesStay {
			became += ", but for the files, which were restored by other means since"
		}
		a.note("a restore of chat %s was cut off: it is %s (%s)", r.ChatID, became, r.RestoreID)
	}
	if err != nil { // each restore tries again
		a.log.Warn("a restore that was cut off is not settled yet", "err", err)
	}
	return d, nil
}

// refuseOpenDir returns an error if others may put files into a directory: SQLite
// takes up any journal that it finds beside a database.
func refuseOpenDir(dir string) error {
	st, err := os.Stat(dir)
	if err != nil {
		return err
	}
	const others = 0o022
	if owner, self, ok := vfs.Owners(st); ok && (owner != self || st.Mode().Perm()&others != 0) {
		return refuse("name a database with --db, or keep stores in a directory of your own with --store DIR",
			"database: others may put files into %q, where it would be", dir)
	}
	return nil
}

// openDB opens a database by its name, without connecting to it. A file of SQLite
// is made if it is not there, where that is asked for.
func (a *app) openDB(dsn string, create bool) (*sql.DB, checkpoint.Dialect, error) {
	program, err := findDrivers()
	if err != nil {
		return nil, "", err
	}
	start := func() (io.ReadWriteCloser, error) { return startDrivers(program) }
	if strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://") {
		return sql.OpenDB(dbpipe.NewConnector("pgx", dsn, start)), checkpoint.PostgreSQL, nil
	}
	file := a.path(strings.TrimPrefix(dsn, "sqlite:"))
	if dsn == "" {
		root, err := a.storeRoot()
		if err != nil {
			return nil, "", err
		}
		if err := refuseOpenDir(root); err != nil {
			return nil, "", err
		}
		file = filepath.Join(root, defaultDB)
	}
	if file, err = filepath.Abs(file); err != nil {
		return nil, "", err
	}
	flag := os.O_RDWR
	if create {
		flag |= os.O_CREATE
	}
	open := os.OpenFile
	if dsn == "" {
		open = vfs.OpenOwn
	}
	f, err := open(file, flag, 0o600) // SQLite would let others read it
	if errors.Is(err, fs.ErrNotExist) && !create {
		return nil, "", &failure{exitUsage, fmt.Errorf("database %q: not found", file), "--create-tables makes it"}
	}
	if err != nil {
		return nil, "", err
	}
	if err := f.Close(); err != nil {
		return nil, "", err
	}
	name := filepath.ToSlash(file)
	if !strings.HasPrefix(name, "/") { // C:/…
		name = "/" + name
	}
	// The mode of its journal is the runtime's choice. References hold here as they
	// do there.
	uri := &url.URL{Scheme: "file", Path: name, RawQuery: "_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)"}
	return sql.OpenDB(dbpipe.NewConnector("sqlite", uri.String(), start)), checkpoint.SQLite, nil
}

// readSchema reads the names of the runtime's tables.
func readSchema(file string, s *checkpoint.Schema) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err = d.Decode(s); err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = errors.New("there is more after the object")
		}
	}
	if err != nil {
		return &failure{exitUsage, fmt.Errorf("schema %q: %w", file, err), ""}
	}
	return nil
}
