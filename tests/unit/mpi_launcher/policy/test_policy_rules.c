/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold of the table of rules as it stands, whatever happens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "mpi_launcher/policy/rules.h"

#define BIT(n) (1u << (n))

static bool is_choice(unsigned state)
{
    return state > DLR_PHASE_DONE && state < DLR_POLICY_STATES;
}

static bool always(const struct dlr_policy_rule *r)
{
    return dlr_streq(r->guard_name, "always");
}

/* The last rule of state and event; NULL: it has none. */
static const struct dlr_policy_rule *last_rule(unsigned state,
                                               enum dlr_policy_what what)
{
    const struct dlr_policy_rule *last = NULL;

    for (unsigned i = 0; i < dlr_policy_nrules; i++)
        if ((dlr_policy_rules[i].states & BIT(state)) &&
            dlr_policy_rules[i].what == what)
            last = &dlr_policy_rules[i];
    return last;
}

static void every_phase_but_the_last_has_an_end_to_its_limit(void **state)
{
    for (unsigned phase = 0; phase < DLR_PHASE_DONE; phase++) {
        const struct dlr_policy_rule *r = last_rule(phase, DLR_EVENT_LIMIT);

        if (!r || !always(r))
            fail_msg("'%s' may wait for ever", dlr_policy_state_name(phase));
    }
}

static void every_choice_is_left_and_leads_to_later_ones(void **state)
{
    for (unsigned choice = DLR_PHASE_DONE + 1; choice < DLR_POLICY_STATES; choice++) {
        const struct dlr_policy_rule *r = last_rule(choice, DLR_EVENT_AT_ONCE);

        if (!r || !always(r))
            fail_msg("nothing may follow '%s'", dlr_policy_state_name(choice));
    }
    for (unsigned i = 0; i < dlr_policy_nrules; i++) {
        const struct dlr_policy_rule *r = &dlr_policy_rules[i];

        if (is_choice(r->next) &&
            (r->states & ~(BIT(r->next) - 1)) > BIT(DLR_PHASE_DONE))
            fail_msg("rule %u leads back to '%s'", i, dlr_policy_state_name(r->next));
        if ((r->states >> (DLR_PHASE_DONE + 1)) &&
            (r->what != DLR_EVENT_AT_ONCE || r->next == DLR_STATE_SAME))
            fail_msg("rule %u waits in a choice", i);
    }
}

static void no_rule_stands_behind_one_that_always_holds(void **state)
{
    for (unsigned i = 0; i < dlr_policy_nrules; i++)
        for (unsigned k = i + 1; always(&dlr_policy_rules[i]) && k < dlr_policy_nrules;
             k++)
            if (dlr_policy_rules[k].what == dlr_policy_rules[i].what &&
                (dlr_policy_rules[k].states & dlr_policy_rules[i].states))
                fail_msg("rule %u is never taken: rule %u always holds", k, i);
}

static void every_event_has_a_rule_and_the_end_has_none(void **state)
{
    for (unsigned what = 0; what < DLR_POLICY_EVENTS; what++) {
        bool found = false;

        for (unsigned i = 0; i < dlr_policy_nrules; i++)
            found |= dlr_policy_rules[i].what == what;
        if (!found)
            fail_msg("nothing happens at '%s'", dlr_policy_event_name(what));
        assert_null(last_rule(DLR_PHASE_DONE, what));
    }
}

static void every_state_is_reached_and_leads_to_the_end(void **state)
{
    uint32_t from_start = BIT(DLR_PHASE_AGENTS), to_end = BIT(DLR_PHASE_DONE);

    for (unsigned round = 0; round < DLR_POLICY_STATES; round++)
        for (unsigned i = 0; i < dlr_policy_nrules; i++) {
            const struct dlr_policy_rule *r = &dlr_policy_rules[i];

            if (r->next == DLR_STATE_SAME)
                continue;
            if (r->states & from_start)
                from_start |= BIT(r->next);
            if (to_end & BIT(r->next))
                to_end |= r->states;
        }
    assert_int_equal(from_start, BIT(DLR_POLICY_STATES) - 1);
    assert_int_equal(to_end, BIT(DLR_POLICY_STATES) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_phase_but_the_last_has_an_end_to_its_limit),
        cmocka_unit_test(every_choice_is_left_and_leads_to_later_ones),
        cmocka_unit_test(no_rule_stands_behind_one_that_always_holds),
        cmocka_unit_test(every_event_has_a_rule_and_the_end_has_none),
        cmocka_unit_test(every_state_is_reached_and_leads_to_the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
