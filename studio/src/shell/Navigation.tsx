/** Links to all pages that the user may see; on a phone most of them are in a menu. */

import { Link } from "@tanstack/react-router";
import { useRef } from "react";
import { NotifySwitch } from "./Badge";
import { Groups } from "./Groups";
import { useMe } from "./me";
import { FIRST_PAGES, PAGES } from "./pages";
import "./navigation.css";

export function Navigation() {
  const me = useMe();
  const menu = useRef<HTMLDivElement>(null);
  const open = PAGES.filter((each) => each.isFor(me));
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
      {links.slice(0, FIRST_PAGES)}
      <button type="button" className="more-pages" popoverTarget="more-pages">
        More
      </button>
      <div id="more-pages" ref={menu} popover="auto">
        {links.slice(FIRST_PAGES)}
        <NotifySwitch />
        <Groups />
      </div>
    </>
  );
}
