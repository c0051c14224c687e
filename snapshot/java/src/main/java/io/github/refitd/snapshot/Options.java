package io.github.refitd.snapshot;

import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.Supplier;

/** How versions are opened and watched. It is changed before it is used, and not by several threads. */
public final class Options {
    long version;
    String alias = "champion";
    Keys keys;
    boolean allowExpired;
    Map<String, String> headers = Map.of();
    Boolean deltas;
    Path stateFile;
    Consumer<Model> onLoad;
    Duration every = Duration.ofMillis(250);
    Supplier<Instant> now = Instant::now;

    /** Opens the version of a number; a watcher serves it whatever the alias says. 0 is that of the alias. */
    public Options version(long number) {
        version = number;
        return this;
    }

    /** Names the alias; champion unless set. */
    public Options alias(String name) {
        alias = name;
        return this;
    }

    /** Asks for versions, aliases and deltas that are signed by one of the keys; null accepts unsigned ones. */
    public Options keys(Keys trusted) {
        keys = trusted;
        return this;
    }

    /** Accepts versions that have expired. */
    public Options allowExpired() {
        allowExpired = true;
        return this;
    }

    /** Sends headers with each request to a daemon. */
    public Options headers(Map<String, String> sent) {
        headers = sent;
        return this;
    }

    /** Applies deltas, or does not. Unless set, open does not and a watcher does. */
    public Options deltas(boolean apply) {
        deltas = apply;
        return this;
    }

    /** Keeps what a watcher accepted last, so that a restart does not fall back to something older. */
    public Options stateFile(Path path) {
        stateFile = path;
        return this;
    }

    /** Is called with each version before it is served, on the watcher's thread; an exception refuses it. */
    public Options onLoad(Consumer<Model> check) {
        onLoad = check;
        return this;
    }

    /** Sets the mean pause between two looks at a directory. */
    public Options every(Duration pause) {
        every = pause;
        return this;
    }

    /** Sets the clock, by which versions expire. */
    public Options now(Supplier<Instant> clock) {
        now = clock;
        return this;
    }

    Trust trust() {
        return new Trust(keys, allowExpired, now);
    }
}
