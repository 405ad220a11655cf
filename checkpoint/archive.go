package checkpoint

import (
	"context"
	"fmt"
	"strings"
)

// ofRestore is the column by which an archive tells restores apart.
const ofRestore = "checkpoint_restore_id"

// archiveOf returns the name of the table that keeps what restores delete from
// another.
func archiveOf(table string) string {
	return "checkpoint_archive_" + strings.ReplaceAll(table, ".", "_")
}

// archived lists the tables of which a restore deletes rows, in the order in
// which they come back.
func (d *DB) archived() []string {
	list := []string{d.schema.Messages}
	for _, p := range d.schema.Parts {
		list = append(list, p.Table)
	}
	return append(list, "checkpoints")
}

// makeArchives makes the archives, and the columns that tables have got since.
func (d *DB) makeArchives(ctx context.Context) error {
	return d.tx(ctx, func(q querier) error {
		for _, table := range d.archived() {
			archive := archiveOf(table)
			have, err := d.columns(ctx, q, archive)
			if err != nil {
				return err
			}
			columns, err := d.rowColumns(ctx, q, table)
			if err != nil {
				return err
			}
			if len(have) == 0 {
				if _, err := q.ExecContext(ctx, `CREATE TABLE `+quote(archive)+` (`+quote(ofRestore)+` TEXT NOT NULL)`); err != nil {
					return err
				}
			}
			for _, c := range missing(columns, have) {
				if _, err := q.ExecContext(ctx, `ALTER TABLE `+quote(archive)+` ADD COLUMN `+quote(c.name)+` `+c.typ); err != nil {
					return fmt.Errorf("archive of %s: %w", table, err)
				}
			}
		}
		return nil
	})
}

// rowColumns returns the columns that make up a row. In SQLite they have no type
// in an archive: a value is kept as it is.
func (d *DB) rowColumns(ctx context.Context, q querier, table string) ([]column, error) {
	columns, err := d.columns(ctx, q, table)
	if err != nil || d.dialect == PostgreSQL {
		return columns, err
	}
	for i := range columns {
		columns[i].typ = ""
	}
	order := column{name: d.schema.MessageOrder}
	if table == d.schema.Messages && len(missing([]column{order}, columns)) > 0 { // rowid
		columns = append(columns, order)
	}
	return columns, nil
}

// missing returns the columns that a list does not have.
func missing(of, list []column) (names []column) {
	has := make(map[string]bool)
	for _, c := range list {
		has[c.name] = true
	}
	for _, c := range of {
		if !has[c.name] {
			names = append(names, c)
		}
	}
	return names
}

// remove moves rows of a table to its archive and returns how many. In the
// condition t is the table.
func (d *DB) remove(ctx context.Context, q querier, restore, table, where string, args ...any) (int64, error) {
	columns, err := d.rowColumns(ctx, q, table)
	if err != nil {
		return 0, err
	}
	n, err := d.exec(ctx, q, `INSERT INTO `+quote(archiveOf(table))+` (`+quote(ofRestore)+names("", columns)+`)
		SELECT CAST(? AS TEXT)`+names("t.", columns)+` FROM `+quote(table)+` AS t WHERE `+where, append([]any{restore}, args...)...)
	if err != nil {
		return 0, fmt.Errorf("archive rows of %s: %w", table, err)
	}
	// Rows of the same table that refer to each other may take others along: how
	// many this deletes says nothing.
	if _, err := d.exec(ctx, q, `DELETE FROM `+quote(table)+` AS t WHERE `+where, args...); err != nil {
		return 0, fmt.Errorf("delete rows of %s: %w", table, err)
	}
	left := 0
	if err := d.queryRow(ctx, q, `SELECT count(*) FROM `+quote(table)+` AS t WHERE `+where, args...).Scan(&left); err != nil {
		return 0, err
	}
	if left > 0 {
		return 0, fmt.Errorf("delete rows of %s: %d are still there: does a trigger keep them?", table, left)
	}
	return n, nil
}

// bringBack moves the rows that a restore removed from a table back to it.
func (d *DB) bringBack(ctx context.Context, q querier, restore, table string) (int64, error) {
	columns, err := d.rowColumns(ctx, q, table)
	if err != nil {
		return 0, err
	}
	kept, err := d.columns(ctx, q, archiveOf(table))
	if err != nil {
		return 0, err
	}
	columns = missing(columns, missing(columns, kept)) // those that both have
	list := strings.TrimPrefix(names("", columns), ", ")
	identity := ""
	if d.dialect == PostgreSQL {
		identity = " OVERRIDING SYSTEM VALUE"
	}
	order := ""
	if table == d.schema.Messages { // one may refer to another before it
		order = ` ORDER BY ` + quote(d.schema.MessageOrder)
	}
	archive := quote(archiveOf(table))
	n, err := d.exec(ctx, q, `INSERT INTO `+quote(table)+` (`+list+`)`+identity+` SELECT `+list+` FROM `+archive+` WHERE `+quote(ofRestore)+` = ?`+order, restore)
	if err != nil {
		return 0, fmt.Errorf("bring back rows of %s: %w", table, err)
	}
	_, err = d.exec(ctx, q, `DELETE FROM `+archive+` WHERE `+quote(ofRestore)+` = ?`, restore)
	return n, err
}

// names lists columns, each after a comma.
func names(prefix string, columns []column) string {
	var b strings.Builder
	for _, c := range columns {
		b.WriteString(", " + prefix + quote(c.name))
	}
	return b.String()
}
