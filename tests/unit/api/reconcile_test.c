/* Operations that no agent ends become Failed at their deadline (design D1): not before it, and
 * without a poll for it. */
#include "api/reconcile.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "tests/unit/api/control_plane.h"

#define OPERATION "01234567-89ab-4cde-8f01-23456789abcd"

static void setup(void)
{
    plane_apply_timeout_s = 1;
    plane_start(AUTH_NONE);
}

TestSuite(reconcile, .init = setup, .fini = plane_stop, .timeout = 60);

static int insert(struct db_conn *txn, void *arg)
{
    char id[] = OPERATION, subscription[] = "00000000-0000-0000-0000-000000000001",
         location[] = "eastus";
    char resource[] =
        "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/rg/providers/"
        "Microsoft.NetApp/netAppAccounts/gone";
    char action[] = "CREATE", state[] = "Creating";
    const struct db_operation op = {.id = id,
                                    .subscription = subscription,
                                    .location = location,
                                    .resource_id = resource,
                                    .action = action,
                                    .status = state,
                                    .generation = 1,
                                    .started = clock_wall_ns(),
                                    .deadline = *(const int64_t *)arg};

    return db_operation_insert(txn, &op);
}

static void start_operation(int64_t deadline)
{
    const struct db_request request = {.name = "test", .run = insert, .arg = &deadline};

    cr_assert_eq(db_submit_wait(plane->db, &request), 0);
}

static void await_end(struct db_operation *op)
{
    for (;;) {
        struct db_conn *reader = db_read_begin(plane->db);
        cr_assert_eq(db_operation_get(reader, OPERATION, op), 0);
        db_read_end(reader);
        if (op->ended != 0) {
            return;
        }
        db_operation_clear(op);
        sched_yield();
    }
}

Test(reconcile, an_operation_fails_at_its_deadline)
{
    struct db_operation op = {0};
    int64_t deadline = clock_wall_ns() + (int64_t)NS_PER_S;

    start_operation(deadline);
    await_end(&op);
    cr_assert_str_eq(op.status, "Failed");
    cr_assert_not_null(op.error);
    cr_assert_geq(op.ended, deadline);
    cr_assert_lt(op.ended, deadline + (int64_t)(2 * NS_PER_S));
    db_operation_clear(&op);
}

Test(reconcile, what_fell_due_while_the_server_was_down_fails_at_its_start)
{
    struct db_operation op = {0};

    plane_apply_timeout_s = 3600; /* nothing wakes the thread now */
    plane_restart();
    start_operation(clock_wall_ns() + 1);
    plane_restart();
    await_end(&op);
    cr_assert_str_eq(op.status, "Failed");
    db_operation_clear(&op);
}
