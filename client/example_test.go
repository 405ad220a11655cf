package client_test

import (
	"context"
	"fmt"

	"github.com/boocode/filestore/client"
	"github.com/boocode/filestore/manager"
)

// A turn of an agent, in a directory that 'snapctl serve' has; then it is taken back.
func Example() {
	turn := func(ctx context.Context, storeDir, cwd string, agent func()) error {
		c, err := client.Dial(ctx, storeDir)
		if err != nil {
			return err
		}
		defer c.Close()
		s, _, err := c.Open(ctx, &client.Initialize{CWD: cwd, SessionID: "s", OwnLog: true})
		if err != nil {
			return err
		}
		if _, err := s.OnTurnStart(ctx, nil); err != nil {
			return err
		}
		agent()
		if _, err := s.OnTurnEnd(ctx, nil); err != nil {
			return err
		}
		var back manager.RestoreResult
		if err := s.Call(ctx, "restore", &manager.RestoreOptions{Target: "@~1"}, &back); err != nil {
			return err
		}
		fmt.Println("restored", back.Restored, "deleted", back.Deleted)
		return nil
	}
	_ = turn
}
