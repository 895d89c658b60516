import { assert, assertEquals, assertFalse, assertLessOrEqual } from "@std/assert";
import fc from "fast-check";
import { ByteBudget, EgressCredit, IngressCredit } from "../../src/mux/credit.ts";

const U32_MAX = 0xffffffff;

Deno.test("EgressCredit spends data down to exhaustion and a grant restores it", () => {
  const credit = new EgressCredit(3);
  assertEquals([1, 2, 3, 4, 5].map(() => credit.spendData()), [true, true, true, false, false]);
  assertEquals(credit.data, 0);
  credit.grant(2);
  assertEquals([1, 2, 3].map(() => credit.spendData()), [true, true, false]);
});

Deno.test("EgressCredit lets a terminal go without data credit, once", () => {
  const credit = new EgressCredit(0);
  assertFalse(credit.spendData());
  assert(credit.spendTerminal());
  assertEquals(credit.terminal, 0);
  assertFalse(credit.spendTerminal());
  credit.grant(5);
  assertFalse(credit.spendTerminal());
});

Deno.test("EgressCredit keeps the terminal apart from the data", () => {
  const credit = new EgressCredit(2);
  assert(credit.spendTerminal());
  assertEquals(credit.data, 2);
  assert(credit.spendData());
  assertEquals(credit.terminal, 0);
});

Deno.test("EgressCredit cannot be made to wrap by a grant", () => {
  const credit = new EgressCredit(10);
  for (let n = 0; n < 3; n++) {
    credit.grant(U32_MAX);
    assertEquals(credit.data, U32_MAX);
  }
  assert(credit.spendData());
  assertEquals(credit.data, U32_MAX - 1);
});

Deno.test("IngressCredit refuses data past the granted limit and changes nothing by it", () => {
  const credit = new IngressCredit(2);
  assert(credit.admitData() && credit.admitData());
  for (let n = 0; n < 3; n++) {
    assertFalse(credit.admitData());
    assertEquals([credit.outstanding, credit.buffered, credit.ungranted], [2, 2, 0]);
  }
});

Deno.test("IngressCredit lets no more in for drained records until a grant says so", () => {
  const credit = new IngressCredit(2);
  assert(credit.admitData() && credit.admitData());
  credit.drainData(2);
  assertFalse(credit.admitData());
  assert(credit.exhausted);
  assertEquals(credit.takeGrant(), 2);
  assertFalse(credit.exhausted);
  assert(credit.admitData());
});

Deno.test("IngressCredit has room for the terminal of a saturated slot, once", () => {
  const credit = new IngressCredit(1);
  assert(credit.admitData());
  assert(credit.admitTerminal());
  assertEquals(credit.buffered, 2);
  assertFalse(credit.admitTerminal());
  credit.drainTerminal();
  assertFalse(credit.admitTerminal());
});

Deno.test("IngressCredit accrues credit for drained data and takes it as one grant", () => {
  const credit = new IngressCredit(32);
  for (let n = 0; n < 10; n++) credit.admitData();
  credit.drainData(3);
  credit.drainData(4);
  assertEquals([credit.outstanding, credit.buffered, credit.ungranted], [10, 3, 7]);
  assertEquals(credit.takeGrant(), 7);
  assertEquals([credit.outstanding, credit.buffered, credit.ungranted], [3, 3, 0]);
  assertEquals(credit.takeGrant(), 0);
});

Deno.test("IngressCredit.passData is admitData and drainData(1)", () => {
  const step = fc.constantFrom("pass", "admit", "drain", "grant");
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 4 }), fc.array(step, { maxLength: 40 }), (window, steps) => {
      const one = new IngressCredit(window);
      const other = new IngressCredit(window);
      for (const what of steps) {
        if (what === "pass") {
          const passed = one.passData();
          assertEquals(other.admitData(), passed);
          if (passed) other.drainData(1);
        } else {
          for (const credit of [one, other]) {
            if (what === "admit") credit.admitData();
            else if (what === "drain") credit.drainData(1);
            else credit.takeGrant();
          }
        }
        assertEquals([one.outstanding, one.buffered, one.ungranted], [
          other.outstanding,
          other.buffered,
          other.ungranted,
        ]);
      }
    }),
  );
});

Deno.test("IngressCredit returns no credit for the terminal", () => {
  const credit = new IngressCredit(4);
  assert(credit.admitTerminal());
  credit.drainTerminal();
  credit.drainTerminal();
  assertEquals([credit.buffered, credit.ungranted], [0, 0]);
});

Deno.test("IngressCredit makes up no credit when more is drained than is held", () => {
  const credit = new IngressCredit(4);
  credit.admitData();
  credit.drainData(100);
  credit.drainData(100);
  assertEquals([credit.buffered, credit.takeGrant()], [0, 1]);
});

Deno.test("IngressCredit never holds more than C plus one, whatever comes", () => {
  const step = fc.constantFrom("data", "terminal", "drain", "drainTerminal", "grant");
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 8 }), fc.array(step, { maxLength: 200 }), (window, steps) => {
      const credit = new IngressCredit(window);
      // The oracle keeps the records themselves.
      let held = 0, terminal = 0, owed = 0, ended = false;
      for (const what of steps) {
        switch (what) {
          case "data": {
            const fits = held + owed < window;
            assertEquals(credit.admitData(), fits);
            if (fits) held++;
            break;
          }
          case "terminal":
            assertEquals(credit.admitTerminal(), !ended);
            if (!ended) terminal = 1;
            ended = true;
            break;
          case "drain":
            credit.drainData(1);
            if (held > 0) {
              held--;
              owed++;
            }
            break;
          case "drainTerminal":
            credit.drainTerminal();
            terminal = 0;
            break;
          default:
            assertEquals(credit.takeGrant(), owed);
            owed = 0;
        }
        assertEquals([credit.buffered, credit.ungranted, credit.outstanding], [
          held + terminal,
          owed,
          held + owed,
        ]);
        assertLessOrEqual(credit.buffered, window + 1);
        assertLessOrEqual(credit.outstanding, window);
      }
    }),
  );
});

Deno.test("EgressCredit cannot outspend the buffer behind an IngressCredit, and credit is conserved", () => {
  const step = fc.constantFrom("send", "sendTerminal", "arrive", "drain", "grant", "grantArrives");
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 8 }), fc.array(step, { maxLength: 300 }), (window, steps) => {
      const owner = new EgressCredit(window);
      const receiver = new IngressCredit(window);
      const records: ("data" | "terminal")[] = [];
      const grants: number[] = [];
      for (const what of steps) {
        switch (what) {
          case "send":
            if (owner.terminal === 1 && owner.spendData()) records.push("data");
            break;
          case "sendTerminal":
            if (owner.spendTerminal()) records.push("terminal");
            break;
          case "arrive": {
            const record = records.shift();
            if (record === "data") assert(receiver.admitData(), "an honest sender was refused");
            if (record === "terminal") assert(receiver.admitTerminal(), "an honest terminal was refused");
            break;
          }
          case "drain":
            receiver.drainData(1);
            break;
          case "grant": {
            const grant = receiver.takeGrant();
            if (grant > 0) grants.push(grant);
            break;
          }
          default:
            owner.grant(grants.shift() ?? 0);
        }
        const sent = records.filter((record) => record === "data").length;
        const granted = grants.reduce((sum, grant) => sum + grant, 0);
        assertEquals(owner.data + sent + receiver.outstanding + granted, window);
        assertLessOrEqual(receiver.buffered, window + 1);
      }
    }),
  );
});

Deno.test("ByteBudget adds charges up and takes them back", () => {
  const budget = new ByteBudget(100);
  budget.charge(60);
  assert(budget.fits(40));
  budget.charge(40);
  assertEquals([budget.used, budget.full], [100, true]);
  budget.release(40);
  assertEquals([budget.used, budget.full], [60, false]);
});

Deno.test("ByteBudget fits what reaches its limit and nothing over it", () => {
  const budget = new ByteBudget(100);
  assert(budget.fits(100));
  assertFalse(budget.fits(101));
  budget.charge(60);
  assert(budget.fits(0) && budget.fits(40));
  assertFalse(budget.fits(41));
  budget.release(60);
  assert(budget.fits(41));
});

Deno.test("ByteBudget cannot be driven below zero", () => {
  const budget = new ByteBudget(100);
  budget.charge(10);
  budget.release(11);
  assertEquals(budget.used, 0);
  assertFalse(budget.fits(101));
});

Deno.test("ByteBudget counts what is let in over the limit, and then fits nothing", () => {
  const budget = new ByteBudget(100);
  budget.charge(150);
  assertEquals([budget.used, budget.full, budget.fits(1)], [150, true, false]);
  budget.release(51);
  assertEquals([budget.full, budget.fits(1)], [false, true]);
});
