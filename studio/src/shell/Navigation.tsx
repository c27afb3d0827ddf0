/** Links to all places that one may go to; on a phone most of them are in a menu. */

import { Link } from "@tanstack/react-router";
import { useRef } from "react";
import { useMe } from "./me";
import { FIRST_PLACES, PLACES } from "./places";
import "./navigation.css";

export function Navigation() {
  const me = useMe();
  const menu = useRef<HTMLDivElement>(null);
  const open = PLACES.filter((each) => each.isFor(me));
  const links = open.map(({ to, name }) => (
    <Link
      key={to}
      to={to}
      onClick={() => menu.current?.matches(":popover-open") && menu.current.hidePopover()}
    >
      {name}
    </Link>
  ));
  return (
    <>
      {links.slice(0, FIRST_PLACES)}
      {links.length > FIRST_PLACES && (
        <button type="button" className="more-places" popoverTarget="more-places">
          More
        </button>
      )}
      <div id="more-places" ref={menu} popover="auto">
        {links.slice(FIRST_PLACES)}
      </div>
    </>
  );
}
