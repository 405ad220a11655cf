package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/boocode/filestore/client"
	"github.com/boocode/filestore/cmd/snapctl/internal/rpc"
	"github.com/boocode/filestore/internal/capture"
	"github.com/boocode/filestore/internal/cas/layout"
	"github.com/boocode/filestore/internal/places"
	"github.com/boocode/filestore/internal/wire"
	"github.com/boocode/filestore/internal/words"
)

func (a *app) statsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stats",
		Short: "Say how much the store holds",
		Args:  args(0, 0),
		RunE:  a.reading(func(cmd *cobra.Command, p *place, _ []string) error { return a.stats(cmd.Context(), p) }),
	}
}

// A statsAnswer is what stats prints as JSON.
type statsAnswer struct {
	jsonPath
	StoreID        string `json:"storeId"`
	Snapshots      int    `json:"snapshots"`
	Segments       int    `json:"segments"`
	Packs          int    `json:"packs"`
	Objects        int    `json:"objects"`
	Bytes          int64  `json:"bytes"`
	TotalBytes     int64  `json:"totalBytes"`
	WorktreeCaches int    `json:"worktreeCaches"`
	CacheBytes     int64  `json:"cacheBytes"`

	Engine *engineStats `json:"engine,omitempty"` // if somebody serves the store
}

// An engineStats says who serves the store, and what is watched, by directory.
type engineStats struct {
	PID      int                           `json:"pid,omitempty"`
	Version  string                        `json:"version"`
	Protocol int                           `json:"protocol"`
	Watches  map[string]capture.WatchStats `json:"watches"`
}

func (a *app) stats(ctx context.Context, p *place) error {
	report, err := p.store.Check(ctx, false)
	if err != nil {
		return err
	}
	j := &statsAnswer{jsonPath: newJSONPath(p.m.StoreDir()), StoreID: p.store.ID(), Snapshots: report.Snapshots,
		Segments: report.Segments, Packs: report.Packs, Objects: report.Objects, Bytes: report.Bytes}
	if j.TotalBytes, err = places.BytesBelow(p.m.StoreDir()); err != nil {
		return err
	}
	dir := filepath.Join(p.m.StoreDir(), layout.Worktrees)
	if j.CacheBytes, err = places.BytesBelow(dir); err != nil {
		return err
	}
	caches, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, c := range caches {
		if c.IsDir() {
			j.WorktreeCaches++
		}
	}
	if c, err := client.Dial(ctx, p.m.StoreDir()); err == nil {
		defer context.AfterFunc(ctx, func() { c.Close() })()
		var st rpc.Stats
		var who rpc.Pong
		err := c.Call(ctx, "stats", nil, &st)
		if err == nil {
			err = c.Call(ctx, "ping", nil, &who)
		}
		if err == nil {
			j.Engine = &engineStats{wire.ServedBy(p.m.StoreDir()), who.Version, who.Protocol, st.Watches}
		}
		c.Close()
	}
	if err := a.printStats(j, p.m.StoreDir()); err != nil {
		return err
	}
	if len(report.Damage) > 0 {
		return &failure{exitDamage, fmt.Errorf("%s in the store", words.Count(len(report.Damage), "damaged place")),
			hintCheck}
	}
	return nil
}

func (a *app) printStats(j *statsAnswer, dir string) error {
	if a.flags.json {
		return a.printJSON(j)
	}
	line := func(name, value string) { fmt.Fprintf(a.out, "%-12s%s\n", name+":", value) }
	line("store", words.Quote(dir))
	line("snapshots", words.Comma(j.Snapshots))
	line("objects", words.Comma(j.Objects))
	line("packs", fmt.Sprintf("%s, %s", words.Comma(j.Packs), words.Size(j.Bytes)))
	line("journal", words.Count(j.Segments, "segment"))
	line("stat cache", fmt.Sprintf("%s, %s", words.Count(j.WorktreeCaches, "working tree"), words.Size(j.CacheBytes)))
	if j.Engine != nil {
		var all capture.WatchStats
		for _, s := range j.Engine.Watches {
			all.Directories += s.Directories
			all.Captures += s.Captures
			all.Full += s.Full
		}
		dirs := "directories"
		if len(j.Engine.Watches) == 1 {
			dirs = "directory"
		}
		line("engine", fmt.Sprintf("%d %s, %s watches, %s, %s of them looked at all files, process %d",
			len(j.Engine.Watches), dirs, words.Comma(all.Directories), words.Count(all.Captures, "capture"),
			words.Comma(all.Full), j.Engine.PID))
	}
	line("total", words.Size(j.TotalBytes))
	return nil
}
